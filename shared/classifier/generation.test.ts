import t from 'tap';
import { failureOf, type Generation, nextStep, type OwedGeneration, type SettledGeneration } from './generation.ts';

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
const PENDING: OwedGeneration = { ...MADE, state: 'PENDING', settledAt: null };
const SETTLED: SettledGeneration = { ...MADE, state: 'SETTLED', settledAt: at(0) };

const step = (row: Generation | null, waitedFor: { id: string; fence: number } | null = null) =>
  nextStep(row, { now: NOW, settledBy: 'door', waitedFor });

t.test('the newest row of a key determines the next step of a request', async (t) => {
  t.match(step(null), { kind: 'open', epoch: 1 });
  t.match(step(MAKING), { kind: 'wait' });
  t.match(step({ ...MAKING, leaseUntil: at(0) }), { kind: 'acquire' });
  t.match(step(PENDING), { kind: 'wait' });
  t.match(step({ ...PENDING, leaseUntil: at(-1) }), { kind: 'acquire' });
  t.match(step(SETTLED), { kind: 'replay' });
});

t.test('an unpaid answer is left to the settlement worker, even after the lease of its row has expired', async (t) => {
  for (const leaseUntil of [at(1_000), at(0)]) {
    for (const heldBy of ['door', 'worker'] as const) {
      const beside = { now: NOW, settledBy: 'worker', waitedFor: { id: 'p-1', fence: 7 } } as const;
      const failure = failureOf(7, { rejected: 'AI_PROVIDER_TIMEOUT' });
      t.match(nextStep({ ...PENDING, leaseUntil, heldBy, failure }, beside), { kind: 'settle', row: { _id: 'p-1' } });
      t.match(nextStep({ ...SETTLED, leaseUntil, heldBy }, beside), { kind: 'replay' });
    }
  }
});

t.test('after a day a request is charged again, whether or not the old answer was paid', async (t) => {
  for (const row of [PENDING, SETTLED]) {
    const over = { ...row, leaseUntil: at(0), replayUntil: at(0) };
    t.match(step(over), { kind: 'open', epoch: 4, after: { _id: 'p-1' } }, row.state);
  }
});

t.test('an unpaid answer whose day is over is waited for while a holder is still charging it', async (t) => {
  for (const settledBy of ['door', 'worker'] as const) {
    const late = (change: Partial<typeof PENDING>, waitedFor: { id: string; fence: number } | null = null) =>
      nextStep({ ...PENDING, replayUntil: at(0), ...change }, { now: NOW, settledBy, waitedFor });
    t.match(late({}), { kind: 'wait', row: { _id: 'p-1' } }, settledBy);
    t.match(late({ leaseUntil: at(0) }), { kind: 'open', epoch: 4 }, settledBy);
    const failure = failureOf(7, { rejected: 'AI_SETTLEMENT_PENDING' });
    const failed = late({ leaseUntil: at(0), failure }, { id: 'p-1', fence: 7 });
    t.match(failed, { kind: 'refuse', rejection: { rejected: 'AI_SETTLEMENT_PENDING' } }, settledBy);
  }
});

t.test('a request never takes a closed answer, at any time of the clock', async (t) => {
  for (const closed of ['EXPIRED', 'SUPERSEDED'] as const) {
    for (const settledBy of ['door', 'worker'] as const) {
      const row = { ...PENDING, closed, leaseUntil: at(0), replayUntil: at(1_000) };
      t.match(nextStep(row, { now: NOW, settledBy, waitedFor: null }), { kind: 'open', epoch: 4 }, closed);
    }
  }
});

t.test('a request that waited for a failed holder returns its failure; a later request acquires the row', async (t) => {
  const failure = failureOf(7, { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 });
  const left = { ...MAKING, failure, leaseUntil: at(-1) };
  t.match(step(left, { id: 'p-1', fence: 7 }), {
    kind: 'refuse',
    rejection: { rejected: 'AI_PROVIDER_TIMEOUT', retryAfter: 2 },
  });
  t.match(step(left), { kind: 'acquire' });
  t.match(step(left, { id: 'p-1', fence: 6 }), { kind: 'acquire' });
  t.match(step(left, { id: 'p-0', fence: 7 }), { kind: 'acquire' });
  t.match(step({ ...left, fence: 8, leaseUntil: at(1) }, { id: 'p-1', fence: 8 }), { kind: 'wait' });
});
