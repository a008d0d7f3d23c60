"""P8QL: one string in, one envelope out.

:func:`graphalgo.p8ql.parser.parse` reads a query and gives its plan;
:func:`graphalgo.p8ql.query.query` answers it from a store. Like the engine the
package does no I/O and imports nothing beyond it: a fresh backend pays for every
import, so nothing is loaded here.
"""
