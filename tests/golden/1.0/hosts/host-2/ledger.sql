PRAGMA application_id = 1179864135;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE charges (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        population TEXT REFERENCES populations,
        time TEXT NOT NULL,
        task TEXT NOT NULL,
        model TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        unit TEXT NOT NULL,
        relation TEXT NOT NULL,
        noise TEXT,
        out TEXT NOT NULL,
        chain TEXT NOT NULL,
        domain TEXT NOT NULL,
        status TEXT NOT NULL,
        process TEXT NOT NULL
    );
INSERT INTO "charges" VALUES(1,'loans','2026-11-28T18:02:22+00:00','weights','mpyc','498501056129/500000000000','40641/576460752303423488','record','add_or_remove_one','{"values": 1, "coins": [[69, 8], [31, 8], [19, 10], [1, 11], [1, 21]]}','/srv/host-2','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 10501, "188140"]');
CREATE TABLE heads (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT UNIQUE NOT NULL
    );
INSERT INTO "heads" VALUES(1,'a36872bf7cc635ad83b17f23adcf38ae9b8b2b3cdc968881981b4f4a8c5eb807');
CREATE TABLE peers (
        certificate TEXT PRIMARY KEY,
        head TEXT NOT NULL
    ) WITHOUT ROWID;
INSERT INTO "peers" VALUES('5A:73:8F:8D:69:78:F2:FF:79:77:2C:B7:F8:26:68:31:1B:CA:B2:E0:BA:40:E0:20:5F:82:F2:C0:F3:94:56:A4','a36872bf7cc635ad83b17f23adcf38ae9b8b2b3cdc968881981b4f4a8c5eb807');
INSERT INTO "peers" VALUES('CE:68:F5:95:6B:CA:49:D7:29:01:80:35:5C:F3:9C:E7:38:71:D5:B3:E9:7A:44:73:54:5A:27:1E:C1:CE:41:A3','a36872bf7cc635ad83b17f23adcf38ae9b8b2b3cdc968881981b4f4a8c5eb807');
CREATE TABLE pieces (
        name TEXT PRIMARY KEY,
        charge INTEGER REFERENCES charges
    ) WITHOUT ROWID;
CREATE TABLE populations (
        key TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        budget_epsilon TEXT,
        budget_delta TEXT,
        retired INTEGER NOT NULL DEFAULT 0
    );
INSERT INTO "populations" VALUES('loans','loans','4','1/1048576',0);
CREATE TABLE uses (
        upload TEXT,
        charge INTEGER REFERENCES charges,
        PRIMARY KEY (upload, charge)
    ) WITHOUT ROWID;
INSERT INTO "uses" VALUES('8630b4c07ed7a948760f27a562a6a44c50358c41603b121d80f688ea86180d71',1);
INSERT INTO "uses" VALUES('d22f9bc2f258265f026d6a1692afde7961a832c4efc9ed372e556d7647f2525d',1);
INSERT INTO "uses" VALUES('dfff135b042e8100ac6f9646f28201bc058bb7d8c9e8be794580e037f7e10aa1',1);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('charges',1);
INSERT INTO "sqlite_sequence" VALUES('heads',1);
COMMIT;
