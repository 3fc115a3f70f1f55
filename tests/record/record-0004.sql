BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
CREATE TABLE notice_outbox (
	id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	first_run TEXT NOT NULL, 
	run TEXT NOT NULL, 
	workflow TEXT NOT NULL, 
	question TEXT, 
	kind TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	user TEXT, 
	state TEXT NOT NULL, 
	made FLOAT NOT NULL, 
	due FLOAT NOT NULL, 
	tries INTEGER NOT NULL, 
	reason TEXT, 
	done FLOAT, 
	body TEXT, 
	PRIMARY KEY (id)
);
CREATE TABLE notice_sign_ins (
	user TEXT NOT NULL, 
	email TEXT, 
	locale TEXT, 
	groups TEXT NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (user)
);
CREATE TABLE record_checkpoints (
	number INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	signature TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "record_checkpoints" VALUES(1,'{"at":"2026-11-22T12:00:00.000000+00:00","before":"","heads":{"first-1":[5,"326815dac0ae545ab46291e6dcd06886cb98f9e7c0af37d1b04add463b31f9b1"]},"key":"3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29","last":5,"number":1}','6f2f3bb04e73c055523873c61a254ee2d40fa1de794f71939715e63e837f9342851213ea6f2fce8530904fbebfd40716b6e7babd5019800b1a1f5c4bc62ebe00');
CREATE TABLE record_counters (
	name TEXT NOT NULL, 
	value INTEGER NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "record_counters" VALUES('entries',5);
CREATE TABLE record_entries (
	id INTEGER NOT NULL, 
	first_run TEXT NOT NULL, 
	n INTEGER NOT NULL, 
	workflow TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	"offset" INTEGER, 
	type TEXT NOT NULL, 
	address TEXT NOT NULL, 
	question TEXT, 
	at TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	salt TEXT, 
	content TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (first_run, n), 
	UNIQUE (first_run, workflow, "key")
);
INSERT INTO "record_entries" VALUES(1,'first-1',0,'trip-1','0',0,'run.started','pipeline:trip',NULL,'2026-11-22T12:00:00.000000+00:00','6bdf1c0b9a72650f45720b5cf30e9add74902e7c0bf65afaa0c57716a6708aca','9680ed9cb5f1a358d8fa5ec721a2da9d335c6fcfc03bfee049f8873c0811137a','8676e37cf3c455ed34f7dd38ba5d1970','{"data":{"blueprint":"trip","digest":"0123456789abcdef"}}');
INSERT INTO "record_entries" VALUES(2,'first-1',1,'trip-1','1',1,'step.started','pipeline:trip;hitl:city',NULL,'2026-11-22T12:00:01.000000+00:00','30ddf1dbf294693f9a37bdc9751865f20325e305c8814faee8f7791bd024f67e','2f0995007a902ae56e7db5428788d25edc88179ab6916e5b5a28e49a5a7519f4','67eb9ea8f0b51dd72c71950778cb8a5c','{"data":{"name":"city","kind":"hitl"}}');
INSERT INTO "record_entries" VALUES(3,'first-1',2,'trip-1','2',2,'question.asked','pipeline:trip;hitl:city','7f3a9c1e5b20d4c8','2026-11-22T12:00:02.000000+00:00','75482090802bbe6d9ec173c9e95a5c78c969c8a3b9d80ea249f12f48a83a3a75','ceab867a38c031396c0d15cb39c94f3bc6e579af370663c2bd3a518884efd5cf','d36bc96ee091213847dbdcf71e65d708','{"data":{"id":"7f3a9c1e5b20d4c8","kind":"input","message":"Which city?","assignees":[],"deadline":null}}');
INSERT INTO "record_entries" VALUES(4,'first-1',3,'trip-1','3',3,'run.completed','pipeline:trip',NULL,'2026-11-22T12:00:03.000000+00:00','89d517635d091134e53d24c1bddc6fbc56af43f2aaab15a960c2eb01c698295c','405049c036c6291a532c58a94de7464efecccdddaed0fc645ce321d955eb4dc5','68595f9348cea58fb3e4faf29f4bc478','{"data":{"output":"Rome"}}');
INSERT INTO "record_entries" VALUES(5,'first-1',4,'trip-1','ended',NULL,'run.ended','',NULL,'2026-11-22T12:00:04.000000+00:00','71bfd5a6054575f02010b2a710cfb75162a236f4e01725afecb9170294936d7c','326815dac0ae545ab46291e6dcd06886cb98f9e7c0af37d1b04add463b31f9b1','4cf42b6fdb7ed666ed604491a988a240','{"data":{"status":"completed","how":"completed"},"outcome":{"output":"Rome","context":{},"error":null,"view":null}}');
CREATE TABLE record_leases (
	name TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE record_marks (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE recorded_runs (
	first_run TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	run TEXT NOT NULL, 
	blueprint TEXT NOT NULL, 
	entries INTEGER NOT NULL, 
	head TEXT NOT NULL, 
	sealed INTEGER NOT NULL, 
	closed TEXT, 
	erased TEXT, 
	PRIMARY KEY (first_run)
);
INSERT INTO "recorded_runs" VALUES('first-1','default','trip-1','trip',5,'326815dac0ae545ab46291e6dcd06886cb98f9e7c0af37d1b04add463b31f9b1',5,NULL,NULL);
CREATE TABLE recorded_workflows (
	first_run TEXT NOT NULL, 
	workflow TEXT NOT NULL, 
	next_offset INTEGER NOT NULL, 
	temporal_run TEXT NOT NULL, 
	closed TEXT, 
	complete BOOLEAN NOT NULL, 
	PRIMARY KEY (first_run, workflow)
);
INSERT INTO "recorded_workflows" VALUES('first-1','trip-1',4,'first-1','2026-11-22T12:00:04.000000+00:00',1);
CREATE TABLE web_once (
	digest TEXT NOT NULL, 
	seal TEXT NOT NULL, 
	user TEXT NOT NULL, 
	expires FLOAT NOT NULL, 
	PRIMARY KEY (digest)
);
CREATE TABLE web_sessions (
	id TEXT NOT NULL, 
	seal TEXT NOT NULL, 
	user TEXT NOT NULL, 
	groups JSON NOT NULL, 
	proof TEXT NOT NULL, 
	only TEXT, 
	created FLOAT NOT NULL, 
	used FLOAT NOT NULL, 
	expires FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE web_tokens (
	id TEXT NOT NULL, 
	seal TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	user TEXT NOT NULL, 
	groups JSON NOT NULL, 
	scopes JSON NOT NULL, 
	is_service BOOLEAN NOT NULL, 
	created FLOAT NOT NULL, 
	expires FLOAT, 
	used FLOAT, 
	revoked FLOAT, 
	PRIMARY KEY (id)
);
CREATE INDEX ix_recorded_runs_run ON recorded_runs (namespace, run);
CREATE INDEX ix_recorded_workflows_unread ON recorded_workflows (complete, closed);
CREATE INDEX ix_recorded_workflows_temporal ON recorded_workflows (temporal_run);
CREATE INDEX ix_record_entries_offset ON record_entries (first_run, workflow, "offset");
CREATE INDEX ix_record_entries_type ON record_entries (first_run, workflow, type, "offset");
CREATE INDEX ix_notice_outbox_due ON notice_outbox (namespace, channel, state, due);
CREATE INDEX ix_notice_outbox_question ON notice_outbox (question);
CREATE INDEX ix_record_entries_question ON record_entries (question);
CREATE INDEX ix_record_entries_run_type ON record_entries (first_run, type);
COMMIT;
