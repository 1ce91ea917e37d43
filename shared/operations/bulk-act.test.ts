import t from 'tap';
import { type BulkBody, isSameRequest, isTaken } from './bulk-act.ts';

const NOON = new Date('2026-11-23T12:00:00Z');
const BODY: BulkBody = {
  act: 'drop',
  filter: { queue: 'grading', until: NOON },
  counted: 3,
  perSecond: 20,
  chargeSuperseded: false,
  operator: 'an',
  reason: 'the receiver is gone',
};

t.test('a repeated request has the same act, letters, pace, consent and reason', async (t) => {
  t.ok(isSameRequest(BODY, { ...BODY, operator: 'binh', counted: 4 }), 'the caller and the count may differ');
  const later = new Date(NOON.getTime() + 1);
  for (const other of [
    { ...BODY, act: 'ack' as const },
    { ...BODY, filter: { ...BODY.filter, until: later } },
    { ...BODY, filter: { ...BODY.filter, since: NOON } },
    { ...BODY, filter: { ...BODY.filter, subject: 'a' } },
    { ...BODY, filter: { until: NOON } },
    { ...BODY, perSecond: 21 },
    { ...BODY, chargeSuperseded: true },
    { ...BODY, reason: 'another reason' },
  ]) {
    t.notOk(isSameRequest(BODY, other), JSON.stringify(other));
  }
});

t.test(
  'an act without a queue takes no dead bulk act, which it would continue under an earlier name and reason',
  async (t) => {
    t.notOk(isTaken('upkeep:deadletters', {}));
    t.ok(isTaken('upkeep:deadletters', { queue: 'upkeep:deadletters' }));
    t.ok(isTaken('grading', {}));
    t.notOk(isTaken('grading', { queue: 'settlement' }));
  },
);
