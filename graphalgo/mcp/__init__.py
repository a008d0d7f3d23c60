"""The MCP server: an agent's map of the graph, over stdio and streamable HTTP.

An agent is handed the ontology when it connects, searches, goes from an entity to
its neighbours one hop at a time, and reads the entities that it chose. Every
answer is a SQL function's, under the claims of the user who asks: nothing is
computed or filtered here.

The modules of this package need the extra ``mcp``; nothing else of graphalgo does.
"""
