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
INSERT INTO "charges" VALUES(1,'clinics','2026-11-27T03:39:49+00:00','weights','ring','498501056129/500000000000','40641/576460752303423488','record','add_or_remove_one','{"values": 1, "coins": [[69, 8], [31, 8], [19, 10], [1, 11], [1, 21]]}','/srv/trial/weights','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 10501, "188140"]');
INSERT INTO "charges" VALUES(2,'clinics','2026-11-27T03:41:00+00:00','confusion','mpyc','498501056129/500000000000','40641/576460752303423488','record','add_or_remove_one','{"values": 1, "coins": [[69, 8], [31, 8], [19, 10], [1, 11], [1, 21]]}','/srv/trial/confusion','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 11867, "193239"]');
INSERT INTO "charges" VALUES(3,'clinics','2026-11-27T03:41:38+00:00','thresholds','mpyc','498501056129/500000000000','40641/576460752303423488','record','add_or_remove_one','{"values": 1, "coins": [[69, 8], [31, 8], [19, 10], [1, 11], [1, 21]]}','/srv/trial/thresholds','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 11867, "193239"]');
INSERT INTO "charges" VALUES(4,'clinics','2026-11-27T03:42:33+00:00','count','mpyc','144932704/244140625','179645829503827019649302775/11150372599265311570767859136324180752990208','record','add_or_remove_one',NULL,'/srv/trial/count','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 11867, "193239"]');
INSERT INTO "charges" VALUES(5,'patients','2026-11-27T03:56:57+00:00','cap','mpyc','99731429943/100000000000','235921005/1180591620717411303424','client','zero_out_one',NULL,'/srv/trial/cap','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 8488, "282330"]');
INSERT INTO "charges" VALUES(6,'readers','2026-11-27T04:05:23+00:00','gap','mpyc','249899183/250000000','807118184108384092491537383459696348204065185396519724860381530760085175773661296011257002035440541848078646676103641409465439556261084335957739339093025561433577604311387875/172963163251936199715288790803100084633267894382601369728083926094976659399051530808242398091433898407459642576465328014084419438891617483536891909853483793452636568621999722931232373211136','record','replace_one',NULL,'/srv/trial/gap','','','done','["host", "606ebfc4-7091-4b1f-aa38-8f323a6d823c", 25325, "340591"]');
CREATE TABLE heads (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT UNIQUE NOT NULL
    );
INSERT INTO "heads" VALUES(1,'36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a430aac59f84ef3cbfab6145068');
INSERT INTO "heads" VALUES(2,'a867a68ac537edacced05740df04670e337a26b9ee483e6da46cd6bd8a88fe72');
INSERT INTO "heads" VALUES(3,'e7aba08366fef65e8e4267c2894f9756fb33e123725dd4b4970e8e6dbd22a827');
INSERT INTO "heads" VALUES(4,'71aff264b91cf9d6336d7166c045c2d4938c6bde30dcd59178d3fb8b0921f82b');
INSERT INTO "heads" VALUES(5,'3a023b764eb2256147fe32194279a9ab6fd329c17dcc116ea09ceded411178a1');
INSERT INTO "heads" VALUES(6,'2b6db31a5180b28de6836f1942c87b2b19c2d70397edc6049d890ea4d308ba81');
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
INSERT INTO "populations" VALUES('clinics','clinics','20',NULL,0);
INSERT INTO "populations" VALUES('patients','patients','3',NULL,0);
INSERT INTO "populations" VALUES('readers','readers','3',NULL,0);
CREATE TABLE uses (
        upload TEXT,
        charge INTEGER REFERENCES charges,
        PRIMARY KEY (upload, charge)
    ) WITHOUT ROWID;
INSERT INTO "uses" VALUES('ce2184009555018f5a1debb4949f7ade21720487a296ec0f3fe09003b2065f66',1);
INSERT INTO "uses" VALUES('db6b5a03201db810932695914e088c31ea837189018071a79b14f40fb953ca22',1);
INSERT INTO "uses" VALUES('eda4292162b5ec7c75440784faecfa9f29f7f6303117d17d08435b5fa676ff66',1);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('charges',6);
INSERT INTO "sqlite_sequence" VALUES('heads',6);
COMMIT;
