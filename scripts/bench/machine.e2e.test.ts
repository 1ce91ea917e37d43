import t from 'tap';
import { chooseEngine } from '#scripts/start/services/mongodb.ts';
import { startThrowAwayServices } from '#testing/stores/throw-away.ts';
import { identifyMongodb } from './machine.ts';

const EXPECTED = { mongod: 'mongod', rust: 'secantusd-rs', python: 'SecantusDB' };

t.test('a temporary server runs the requested engine, even if EXAMHALL_ENGINE names another', async (t) => {
  const { name } = chooseEngine(process.env);
  process.env.EXAMHALL_ENGINE = 'no such engine';
  const services = await startThrowAwayServices({ engine: name, redis: false });
  t.teardown(services.close);
  const server = await identifyMongodb(services.mongodb?.url ?? '');
  t.equal(server.engine, EXPECTED[name]);
  t.match(server.is, /\d+\.\d+\.\d+/);
});
