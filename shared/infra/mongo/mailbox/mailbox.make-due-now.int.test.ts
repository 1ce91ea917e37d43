import t from 'tap';
import { settlementOrder } from '#shared/classifier/commands.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { claimCommand } from './claim.ts';
import { newCommand } from './commands.ts';
import { makeDueNow, postCommand } from './mailbox.ts';
import { settleCommand } from './settle.ts';

const mongo = await openTestMongo(t);
let count = 0;

async function posted(runInMs: number) {
  const now = Date.now();
  const order = settlementOrder({ _id: `preview-${count++}`, key: 'k' });
  return (await postCommand(mongo, newCommand({ ...order, maxAttempts: 5, now, runAt: now + runInMs }))).command;
}

type Settlement = CommandRef<'settlement'>;
const makeDue = (command: Settlement) => makeDueNow(mongo, command);
const claim = (command: Settlement) => claimCommand(mongo, command, { workerId: 'worker-1', leaseMs: HOUR });

t.test('makeDueNow makes a command that backs off due at once and adds one attempt', async (t) => {
  const waiting = await posted(HOUR);
  const { _id } = waiting;
  t.match(await claim(waiting), { kind: 'refused' });
  const changed = await makeDue(waiting);
  t.match(changed, { _id, status: 'PENDING', attempts: 0, maxAttempts: 6, fence: 0 });
  t.match(
    await makeDue(waiting),
    { maxAttempts: 6, nextRunAt: changed?.nextRunAt },
    'once, however often it is called',
  );
  t.match(await claim(waiting), { kind: 'claimed', command: { attempts: 1 } });
});

t.test('makeDueNow leaves a due, leased or settled command unchanged', async (t) => {
  const due = await posted(-1_000);
  t.match(await makeDue(due), { nextRunAt: due.nextRunAt, maxAttempts: 5 });
  const claimed = await claim(due);
  if (claimed.kind !== 'claimed') throw new Error(`it was ${claimed.kind}`);
  const { command } = claimed;
  const { lockedUntil, nextRunAt } = command;
  t.match(await makeDue(due), { lockedUntil, nextRunAt, maxAttempts: 5, attempts: 1 }, 'the lease is not shortened');
  await settleCommand(mongo, command, { to: 'DEAD', error: { fingerprint: 'Error: x', message: 'x' } });
  t.match(await makeDue(due), { status: 'DEAD', maxAttempts: 5 });
  t.equal(await makeDue({ ...due, _id: 'nothing' }), null);
});
