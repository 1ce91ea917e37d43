import t from 'tap';
import { actorOf, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { ACTORS } from './actors.ts';

t.test('a queue is named after its actor, by which the cluster is watched', async (t) => {
  t.strictSame([...new Set(QUEUES.map(actorOf))].sort(), Object.keys(ACTORS).sort());
});
