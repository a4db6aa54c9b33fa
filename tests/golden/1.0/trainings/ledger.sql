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
INSERT INTO "charges" VALUES(1,'clinics','2026-11-29T21:32:20+00:00','train','mpyc','1193877659643/200000000000','4616281286273661/590295810358705651712','record','add_or_remove_one',NULL,'/srv/trial/train','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 23345, "1645906"]');
INSERT INTO "charges" VALUES(2,'patients','2026-11-29T21:39:05+00:00','train','mpyc','3','5820891341092609/590295810358705651712','record','add_or_remove_one','{"rho": "129089355878233/500000000000000", "certain": "5888421062098731/604462909807314587353088", "apart": "0"}','/srv/trial/solo','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 31357, "1686300"]');
CREATE TABLE heads (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT UNIQUE NOT NULL
    );
INSERT INTO "heads" VALUES(1,'36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a430aac59f84ef3cbfab6145068');
INSERT INTO "heads" VALUES(2,'a867a68ac537edacced05740df04670e337a26b9ee483e6da46cd6bd8a88fe72');
CREATE TABLE peers (
        certificate TEXT PRIMARY KEY,
        head TEXT NOT NULL
    ) WITHOUT ROWID;
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
INSERT INTO "populations" VALUES('clinics','clinics','20','1/1000 runs=3',0);
INSERT INTO "populations" VALUES('patients','patients','10','1/1000 runs=3',0);
CREATE TABLE uses (
        upload TEXT,
        charge INTEGER REFERENCES charges,
        PRIMARY KEY (upload, charge)
    ) WITHOUT ROWID;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('charges',2);
INSERT INTO "sqlite_sequence" VALUES('heads',2);
COMMIT;
