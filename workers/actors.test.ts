import t from 'tap';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { actorOf } from '#shared/kernel/command.ts';
import { ACTORS } from './actors.ts';

t.test('every queue is named after an existing actor, and every actor has a queue', async (t) => {
  t.strictSame([...new Set(QUEUES.map(actorOf))].sort(), Object.keys(ACTORS).sort());
});
