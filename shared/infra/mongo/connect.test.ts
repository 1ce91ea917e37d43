import t from 'tap';
import { openMongo, openReleaseMongo } from './connect.ts';

const PLACE = { url: 'mongodb://127.0.0.1:1/?readPreference=secondaryPreferred', database: 'd', appName: 'a' };

t.test('MongoDB reads come from the primary, whatever the connection string requests', async (t) => {
  for (const open of [openMongo, openReleaseMongo]) {
    const { client, db } = open(PLACE);
    t.equal(client.readPreference.mode, 'primary');
    t.equal(db.collection('attempts').readPreference?.mode, 'primary');
    t.match(db.collection('attempts').readConcern, { level: 'majority' });
  }
});

t.test('only the MongoDB client of a release has no socket timeout', async (t) => {
  t.equal(openReleaseMongo(PLACE).client.options.socketTimeoutMS, 0);
  t.ok(openMongo(PLACE).client.options.socketTimeoutMS > 0);
});
