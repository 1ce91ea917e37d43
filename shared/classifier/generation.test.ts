import t from 'tap';
import { type Generation, nextStep } from './generation.ts';

const NOW = Date.parse('2026-11-21T00:00:00.000Z');
const at = (ms: number) => new Date(NOW + ms);

function row(change: Partial<Generation>): Generation {
  return {
    _id: 'p-1',
    key: 'key',
    epoch: 3,
    organizationId: 'org-1',
    actor: { id: 'a', role: 'TEACHER' },
    state: 'MAKING',
    leaseUntil: at(1_000),
    heldBy: 'door',
    fence: 7,
    failure: null,
    result: null,
    charge: null,
    usageConsumed: false,
    commandId: null,
    createdAt: at(0),
    replayUntil: null,
    settledAt: null,
    idleSince: at(0),
    ...change,
  };
}

const step = (change: Partial<Generation> | null, waitedFor: { id: string; fence: number } | null = null) =>
  nextStep(change === null ? null : row(change), NOW, waitedFor);

t.test('the newest row of a key says what becomes of a request', async (t) => {
  t.match(step(null), { kind: 'open', epoch: 1 });
  t.match(step({}), { kind: 'wait' });
  t.match(step({ leaseUntil: at(0) }), { kind: 'take' });
  t.match(step({ state: 'PENDING', replayUntil: at(1) }), { kind: 'wait' });
  t.match(step({ state: 'PENDING', replayUntil: at(1), leaseUntil: at(-1) }), { kind: 'take' });
  t.match(step({ state: 'SETTLED', replayUntil: at(1) }), { kind: 'replay' });
});

t.test('a day later it costs anew, paid for or not', async (t) => {
  for (const state of ['PENDING', 'SETTLED'] as const) {
    t.match(step({ state, replayUntil: at(0) }), { kind: 'open', epoch: 4 }, state);
  }
});

t.test('who waited for a holder gets what became of that one; who comes later tries', async (t) => {
  const failure = { fence: 7, rejection: JSON.stringify({ rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 }) };
  const left = { failure, leaseUntil: at(-1) };
  t.match(step(left, { id: 'p-1', fence: 7 }), {
    kind: 'refuse',
    rejection: { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 },
  });
  t.match(step(left), { kind: 'take' });
  t.match(step(left, { id: 'p-1', fence: 6 }), { kind: 'take' });
  t.match(step(left, { id: 'p-0', fence: 7 }), { kind: 'take' });
  t.match(step({ ...left, fence: 8, leaseUntil: at(1) }, { id: 'p-1', fence: 8 }), { kind: 'wait' });
});
