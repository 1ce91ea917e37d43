import t from 'tap';
import { mongodbServer } from './machine.ts';

t.test(
  'the bench identifies a MongoDB server by its replies, a stand-in with the version that it imitates',
  async (t) => {
    const rust = { version: '8.2.11', secantusVersion: '0.5.3-beta.196' };
    t.strictSame(mongodbServer(rust, { secantus: { server: 'rust' } }), {
      engine: 'secantusd-rs',
      is: 'secantusd-rs 0.5.3-beta.196 (speaks 8.2.11)',
    });
    const python = { version: '8.2.11', secantusVersion: '0.7.0b3' };
    t.strictSame(mongodbServer(python, { secantus: { server: 'python' } }), {
      engine: 'SecantusDB',
      is: 'SecantusDB 0.7.0b3 in Python (speaks 8.2.11)',
    });
    t.strictSame(mongodbServer({ version: '8.0.12' }, {}), { engine: 'mongod', is: 'mongod 8.0.12' });
  },
);

t.test('the bench does not report an unknown stand-in as mongod', async (t) => {
  t.match(mongodbServer({ version: '8.2.11', secantusVersion: '1.0.0' }, {}), { engine: 'SecantusDB', is: /unknown/ });
});
