package help

// Help texts of the commands of rfsd that have many options. The options themselves are described where they are declared.
const (
	// Migrate describes rfsd migrate.
	Migrate = `Creates a snapshot (with --source-host) or reads an existing one, and migrates templates, indices
and every live document to a cluster, or exports the documents to files. It runs in the
foreground until it is complete. Interrupted or killed, the same command continues where it
stopped; documents keep their ids and are never duplicated. Existing indices, templates and
aliases of the target are not changed. If target indices hold documents already,
--existing-documents decides about documents with the same ids.

Memory: requests in flight (--max-connections) times their size
(--documents-size-per-bulk-request), one more request body per slot, and one decompressed chunk
per slot (at most some MB, or the largest document). Nothing is unpacked to disk.

--trial 1000 is a trial run: at most 1,000 documents of each shard go to indices of their own
(rfsd-trial-…), converted and sent as the migration does it. It reports accepted and rejected
documents, by class, and estimates time, requests and (--price) cost of the whole migration. For
the time it sends further documents for --trial-measure, at most eight times the snapshot and
1 GiB, to indices (rfsd-trial-measure-…) that it deletes again. Nothing else is touched; rfsctl
cleanup --trial removes exactly what it created.

The failed documents (--failed-documents) list rejected documents and those without a source
(exit code 6). Exit code 7 takes precedence over 6, and 8 (--verify) over both; 5 means that no
work was started, 4 that the source is still making the snapshot (--snapshot-no-wait).`

	// Follow describes rfsd follow.
	Follow = `Migrates a snapshot as rfsd migrate does (round 0), and then sends what changed in each later
snapshot (rounds 1, 2, …): new and changed documents, and deletions. Unchanged
documents are not sent. A session of rfsd migrate can be followed, too.

With --once and --snapshot-name, one snapshot of the repository is the next round. With
--source-host each round makes a snapshot; without --once a round starts --every 15m. Interrupted
or killed, the same command continues where it stopped. A snapshot that has arrived is not sent
again. Keep the last snapshot that has arrived until the next one has: both are read to find what
changed. If it was deleted, --start-over replaces what the session created by the next snapshot.

New indices are created, and new fields are added to mappings. Indices that vanished from the
source stay. While it follows, the target remembers the versions of deleted documents for a day
(index.gc_deletes), so that no delayed request brings one back; --finish restores that setting.

The exit codes are the same as for rfsd migrate.`

	// Run describes rfsd run.
	Run = `Keeps workers running on this machine until no work is left, and continues reporting the progress
of the migration. Each worker is a process that leases one work item (rfsd worker). With a
coordinator file, which only one process can open, the workers run inside the daemon. With
--from, files are imported (rfsd import) instead of a snapshot; with --topic, a Kafka topic is
consumed (rfsd consume) until the node is stopped. With --follow, the fleet follows the source
cluster by rounds, as rfsd follow does, until a cut-over.

Settings come from the file (--config; strict TOML, see rfsd config check), the environment
(RFS_*) and flags; the latter take precedence. SIGTERM hands every lease off within 30 s, a
second SIGTERM ends the workers immediately; SIGHUP reads certificates and log level again.

After a signal it exits with 0; with --exit-when-done it exits as rfsd migrate does (of an
import: as rfsd import does). Exit code 7 takes precedence over 6. With --verify it then compares
the target with the snapshot, together with the other nodes that have this option, and prints the
report; exit code 8 takes precedence over both.`

	// Worker describes rfsd worker.
	Worker = `Performs one step of a phase before the documents (snapshot, cluster metadata, indices), or
leases one work item and works on it, and exits. A fleet consists of many of these, on any number
of machines, restarted by a parent process.

It also exits with 0 when documents were rejected (they are counted) and after a clean SIGTERM. A
crash exits with 2, too: rely on 2 only together with the final record on --status-fd.`

	// Plan describes rfsd plan.
	Plan = `Reports what migrate with the same options would do, without writing a document. Sections:
- changes: what would be created, changed, left out and refused. What migrate would create is
passed to the target's template simulation, which stores nothing; existing objects are compared.
- sizes: bytes and requests to the repository; with --documents also documents.
- access: every permission of a migration, tested with requests that must fail for another
reason. Where only an index can show it (indexing into names that do not exist yet), an empty one
with the name NAME-rfsd-doctor-RANDOM is created and removed immediately. A bucket that keeps the
state of the work (--coordinator-bucket) gets a session plan-RANDOM, which is removed, too.
- versions: whether the target's version is tested.
- disks: whether the target has room.
- limits: health, clocks, shards, fields, heap and sizes of requests of the target.

--only names some of them. Without --target-host there are only sizes, and with --target-version
the changes on an empty target of that version. Each finding states what to do. Exit code 7: the
migration, or a part of it, would fail.`

	// Verify describes rfsd verify.
	Verify = `Compares the documents that migrate with the same options sends with the documents of the target:
id, routing and every byte of the source. The types of the fields of the mappings are compared,
too. Lists missing, extra and different documents. No document is changed; target indices are
refreshed. The same command on several machines shares the work, if the target knows the session
of the migration.

Exit code 6: equal, but documents that the session lists as failed, or that have no source, are
not on the target. 7: equal as far as it was compared, but a part cannot be read. 8: different;
8 takes precedence over 7, and 7 over 6. Documents that rules leave out do not count as
differences; nor do later writes to the target, if the end of the migration is recorded. With
--strict later writes are differences.

With --changed it looks up on the target only what the last round of rfsd follow sent or
deleted.`

	// Import describes rfsd import.
	Import = `Imports NDJSON files (pairs of action and source line, as --export-dir writes them and the bulk
API takes them; plain, .gz or .zst) from a directory or a bucket into a cluster. Start the same
command on any number of machines that see the same files: one of them divides the files into
windows, all of them work, and any of them may die. The same command continues where it stopped;
documents are overwritten by id, never duplicated. Files must not change meanwhile.

Memory: requests in flight (--max-connections) times their size
(--documents-size-per-bulk-request), one more request body per slot, and per slot 256 KiB or
twice the longest line (at most --max-document-size); with zstd up to 8 MiB more for its window,
and beyond that up to 128 MiB for all slots together. Nothing is unpacked to disk. At most
1048576 files. An uncompressed file is divided into windows, a compressed file is one window.

rfsd run --from … does the same as a service, with workers that are kept running.

The failed documents (--failed-documents) list rejected and unreadable documents, with file and
offset (exit code 6). Abandoned windows of a damaged file, and documents that the target
does not hold at the end, exit with 7, which takes precedence over 6.`

	// Consume describes rfsd consume.
	Consume = `Brings the messages of a Kafka topic into a cluster until it is interrupted. Start the same
command on as many machines as you like: one of them divides the partitions among all, and again
when one joins or is missing. A message arrives at least once; documents are overwritten by id,
in the order of their partition. A message without a value deletes the document whose id is its
key. The same command continues where it stopped.

Offsets are committed for --group when all messages below are in the target, or recorded as
failed. No consumer may belong to the group. The session itself continues from its own records.

Bounds: requests in flight (--max-connections) × their size (--documents-size-per-bulk-request),
and for each partition --fetch-size twice, for all together 64 MiB more than --max-batch-size,
or a longer batch (--max-batch-size).

The failed-document file names rejected and unreadable messages (exit code 6 with --until-end)
with partition and offset.`
)
