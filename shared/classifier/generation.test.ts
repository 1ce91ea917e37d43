import t from 'tap';
import { failureOf, type Generation, nextStep } from './generation.ts';

const NOW = Date.parse('2026-11-21T00:00:00.000Z');
const at = (ms: number) => new Date(NOW + ms);

const FOUND = {
  _id: 'p-1',
  key: 'key',
  epoch: 3,
  organizationId: 'org-1',
  actor: { id: 'a', role: 'TEACHER' },
  leaseUntil: at(1_000),
  heldBy: 'door',
  fence: 7,
  failure: null,
  usageConsumed: false,
  createdAt: at(0),
} as const;
const MADE = {
  ...FOUND,
  result: '{}',
  charge: { credits: 6, tokens: 30 },
  commandId: 'c-1',
  replayUntil: at(1),
  idleSince: null,
};
const MAKING: Generation = {
  ...FOUND,
  state: 'MAKING',
  result: null,
  charge: null,
  commandId: null,
  replayUntil: null,
  settledAt: null,
  idleSince: at(0),
};
const PENDING: Generation = { ...MADE, state: 'PENDING', settledAt: null };
const SETTLED: Generation = { ...MADE, state: 'SETTLED', settledAt: at(0) };

const step = (row: Generation | null, waitedFor: { id: string; fence: number } | null = null) =>
  nextStep(row, NOW, waitedFor);

t.test('the newest row of a key says what becomes of a request', async (t) => {
  t.match(step(null), { kind: 'open', epoch: 1 });
  t.match(step(MAKING), { kind: 'wait' });
  t.match(step({ ...MAKING, leaseUntil: at(0) }), { kind: 'take' });
  t.match(step(PENDING), { kind: 'wait' });
  t.match(step({ ...PENDING, leaseUntil: at(-1) }), { kind: 'take' });
  t.match(step(SETTLED), { kind: 'replay' });
});

t.test('a day later it costs anew, paid for or not', async (t) => {
  for (const row of [PENDING, SETTLED]) {
    t.match(step({ ...row, replayUntil: at(0) }), { kind: 'open', epoch: 4 }, row.state);
  }
});

t.test('who waited for a holder gets what became of that one; who comes later tries', async (t) => {
  const failure = failureOf(7, { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 });
  const left = { ...MAKING, failure, leaseUntil: at(-1) };
  t.match(step(left, { id: 'p-1', fence: 7 }), {
    kind: 'refuse',
    rejection: { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 },
  });
  t.match(step(left), { kind: 'take' });
  t.match(step(left, { id: 'p-1', fence: 6 }), { kind: 'take' });
  t.match(step(left, { id: 'p-0', fence: 7 }), { kind: 'take' });
  t.match(step({ ...left, fence: 8, leaseUntil: at(1) }, { id: 'p-1', fence: 8 }), { kind: 'wait' });
});
