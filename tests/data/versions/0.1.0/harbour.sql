-- The harbour sample as version 0.1.0 loaded it, and beside it a vessel that is
-- retired, one of an organisation, ended and remembered edges, one to a soft node,
-- verdicts, and a pair to be judged.

insert into aiq.entity_types (name, handle_prefix, description, indexed) values
    ('operator', 'OPR', 'a company that runs or owns ships', true),
    ('vessel', 'VSL', 'a ship in service', true),
    ('port', 'PRT', 'a port of call', true),
    ('registration', 'REG', 'an entry in a flag state''s ship register', true);
insert into aiq.relations (src_type, relation, dst_type, inverse_label, description) values
    ('vessel', 'operated_by', 'operator', 'operates', null),
    ('operator', 'subsidiary_of', 'operator', 'parent_of', null),
    ('vessel', 'last_called', 'port', 'received', null),
    ('operator', 'competes_with', 'operator', 'competes_with', null);
insert into aiq.nodes (id, entity_type, claimed_kind, soft_name, handle_number, summary, source_table, source_pk, org_id, visibility, owner_id, retired_at) values
    (1, 'operator', null, null, 1, 'Meridian Line', 'harbour:operators', '1', null, 'org', null, null),
    (2, 'operator', null, null, 2, 'Kestrel Shipping', 'harbour:operators', '2', null, 'org', null, null),
    (3, 'operator', null, null, 3, 'Meridian Bulk', 'harbour:operators', '3', null, 'org', null, null),
    (4, 'operator', null, null, 4, 'Nordvik Chartering', 'harbour:operators', '4', null, 'org', null, null),
    (5, 'vessel', null, null, 1, 'Meridian Dawn (IMO 9331802)', 'harbour:vessels', '1', null, 'org', null, null),
    (6, 'vessel', null, null, 2, 'Meridian Star (IMO 9331803)', 'harbour:vessels', '2', null, 'org', null, null),
    (7, 'vessel', null, null, 3, 'Bulk Harmony (IMO 9407711)', 'harbour:vessels', '3', null, 'org', null, null),
    (8, 'vessel', null, null, 4, 'Aurora Kestrel (IMO 9214578)', 'harbour:vessels', '4', null, 'org', null, null),
    (9, 'port', null, null, 1, 'Rotterdam, Netherlands', 'harbour:ports', '1', null, 'org', null, null),
    (10, 'port', null, null, 2, 'Felixstowe, United Kingdom', 'harbour:ports', '2', null, 'org', null, null),
    (11, 'port', null, null, 3, 'Gothenburg, Sweden', 'harbour:ports', '3', null, 'org', null, null),
    (12, 'registration', null, null, 1, 'NL-2231 (IMO 9331802)', 'harbour:registrations', '1', null, 'org', null, null),
    (13, 'registration', null, null, 2, 'SE-0117 (IMO 9214578)', 'harbour:registrations', '2', null, 'org', null, null),
    (14, null, 'vessel', 'meridien dawn', null, 'Meridien Dawn', null, null, null, 'org', null, null),
    (15, null, 'project', 'harbour rewrite', null, 'Harbour Rewrite', null, null, null, 'org', null, null),
    (16, 'vessel', null, null, 5, 'Old Hulk (IMO 9000001)', 'harbour:vessels', '5', null, 'org', null, '2024-05-01 00:00:00+00'),
    (17, 'vessel', null, null, 6, 'Quiet Runner (IMO 9000002)', 'harbour:vessels', '6', 'd0000000-0000-0000-0000-00000000000a', 'org', null, null);
insert into aiq.node_keys (node_id, key, kind, is_name, soft, audience, retired_at) values
    (1, 'meri', 'canonical', true, false, null, null),
    (1, 'meridian', 'short', true, false, null, null),
    (2, 'kest', 'canonical', true, false, null, null),
    (3, 'merb', 'canonical', true, false, null, null),
    (3, 'meridian bulk', 'short', true, false, null, null),
    (4, 'nord', 'canonical', true, false, null, null),
    (5, 'meridian dawn', 'canonical', true, false, null, null),
    (5, '9331802', 'alias', false, false, null, null),
    (6, 'meridian star', 'canonical', true, false, null, null),
    (6, '9331803', 'alias', false, false, null, null),
    (7, 'bulk harmony', 'canonical', true, false, null, null),
    (7, '9407711', 'alias', false, false, null, null),
    (8, 'aurora kestrel', 'canonical', true, false, null, null),
    (8, '9214578', 'alias', false, false, null, null),
    (9, 'rotterdam', 'canonical', true, false, null, null),
    (10, 'felixstowe', 'canonical', true, false, null, null),
    (11, 'gothenburg', 'canonical', true, false, null, null),
    (12, 'nl-2231', 'canonical', false, false, null, null),
    (12, '9331802', 'alias', false, false, null, null),
    (13, 'se-0117', 'canonical', false, false, null, null),
    (13, '9214578', 'alias', false, false, null, null),
    (14, 'meridien dawn', 'alias', true, true, null, null),
    (15, 'harbour rewrite', 'alias', true, true, null, null),
    (16, 'old hulk', 'canonical', true, false, null, null),
    (17, 'quiet runner', 'canonical', true, false, null, null);
insert into aiq.edges (id, src_id, dst_id, relation, weight, valid_from, valid_to, recorded_at, memory, provenance, closed_by, org_id, visibility, owner_id, src_audience, dst_audience, retired_at) values
    (1, 5, 1, 'operated_by', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "registry"}', null, null, 'org', null, null, null, null),
    (2, 6, 1, 'operated_by', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "registry"}', null, null, 'org', null, null, null, null),
    (3, 7, 3, 'operated_by', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "registry"}', null, null, 'org', null, null, null, null),
    (4, 8, 2, 'operated_by', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "registry"}', null, null, 'org', null, null, null, null),
    (5, 3, 1, 'subsidiary_of', 0.95, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "registry"}', null, null, 'org', null, null, null, null),
    (6, 1, 2, 'competes_with', 0.4, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "trade press"}', null, null, 'org', null, null, null, null),
    (7, 5, 9, 'last_called', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "ais"}', null, null, 'org', null, null, null, null),
    (8, 7, 9, 'last_called', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "ais"}', null, null, 'org', null, null, null, null),
    (9, 8, 11, 'last_called', 1, '2024-03-01 00:00:00+00', null, '2024-03-01 00:00:00+00', null, '{"source": "ais"}', null, null, 'org', null, null, null, null),
    (10, 5, 10, 'last_called', 0.9, '2023-01-01 00:00:00+00', '2024-02-01 00:00:00+00', '2023-01-01 00:00:00+00', 'log-1', null, 'log-2', null, 'org', null, null, null, null),
    (11, 16, 2, 'operated_by', 1, '2022-01-01 00:00:00+00', null, '2022-01-01 00:00:00+00', null, null, null, null, 'org', null, null, null, null),
    (12, 17, 4, 'operated_by', 0.8, '2023-06-01 00:00:00+00', null, '2023-06-01 00:00:00+00', 'log-3', null, null, 'd0000000-0000-0000-0000-00000000000a', 'org', null, null, null, null),
    (13, 6, 15, 'last_called', 0.5, '2023-06-01 00:00:00+00', null, '2023-06-01 00:00:00+00', 'log-4', null, null, null, 'org', null, null, null, null);
insert into aiq.link_verdicts (node_a, node_b, confidence, reason, judged_by, judged_at) values
    (5, 14, 0.9, 'a misspelling', 'a worker', '2024-04-01 00:00:00+00'),
    (6, 14, 0, 'another ship', 'a worker', '2024-04-01 00:00:00+00');
insert into aiq.link_pair_queue (node_a, node_b, name_a, name_b, similarity, queued_at) values
    (5, 6, 'meridian dawn', 'meridian star', 0.5, '2024-04-01 00:00:00+00');
select setval('aiq.nodes_id_seq', 17);
select setval('aiq.edges_id_seq', 13);
