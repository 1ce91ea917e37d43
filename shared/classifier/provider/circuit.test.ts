import fc from 'fast-check';
import t from 'tap';
import {
  type Admission,
  admit,
  afterCall,
  type CallReport,
  type CircuitState,
  CLOSED,
  phaseOf,
  readCircuit,
} from './circuit.ts';

const RULES = { failures: 3, cooldownMs: 1_000, probeMs: 500 };
const at = (now: number, asTrial = false) => ({ now, rules: RULES, asTrial });
const failed: CallReport = { kind: 'failure' };
const isKeptOut = ({ kind }: Admission) => kind === 'open' || kind === 'throttled';

/** Any history of a circuit: the end of each call, and the time since the previous one. */
const happenings = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 2_000 }),
    end: fc.oneof(
      fc.constantFrom<CallReport>({ kind: 'success' }, { kind: 'answer' }, failed, { kind: 'nothing' }),
      fc.record({ kind: fc.constant('throttle' as const), waitMs: fc.option(fc.integer({ min: 0, max: 5_000 })) }),
    ),
  }),
  { maxLength: 60 },
);

t.test('a circuit opens after the limit of failures in a row, and an answer in between resets the count', async (t) => {
  let state = CLOSED;
  for (const end of [failed, failed, { kind: 'answer' }, failed, failed] satisfies CallReport[]) {
    state = afterCall(state, end, at(10));
    t.equal(phaseOf(state, 10), 'closed');
  }
  state = afterCall(state, failed, at(10));
  t.strictSame(admit(state, 10, RULES), { kind: 'open', retryAfterMs: 1_000 });
  t.strictSame(admit(state, 1_009, RULES), { kind: 'open', retryAfterMs: 1 });
  t.match(admit(state, 1_010, RULES), { kind: 'trial' });
});

t.test('an open circuit admits one trial at a time, until that trial is lost', async (t) => {
  const open: CircuitState = { ...CLOSED, failures: 3, openUntil: 1_000 };
  const admission = admit(open, 1_000, RULES);
  t.equal(admission.kind, 'trial');
  if (admission.kind !== 'trial') return;
  t.match(admit(admission.state, 1_499, RULES), { kind: 'open', retryAfterMs: 1 });
  t.match(admit(admission.state, 1_500, RULES), { kind: 'trial' });
  t.strictSame(afterCall(admission.state, { kind: 'success' }, at(1_100, true)), CLOSED);
  t.match(afterCall(admission.state, failed, at(1_100, true)), { openUntil: 2_100, probeUntil: 0 });
  const given = afterCall(admission.state, { kind: 'nothing' }, at(1_100, true));
  t.match(admit(given, 1_100, RULES), { kind: 'trial' }, 'a trial that was given up leaves its turn to the next');
});

t.test('a call that began before the circuit opened leaves it open', async (t) => {
  const open: CircuitState = { ...CLOSED, failures: 3, openUntil: 1_000 };
  for (const end of [{ kind: 'success' }, failed, { kind: 'answer' }] satisfies CallReport[]) {
    t.strictSame(afterCall(open, end, at(500)), open);
  }
});

t.test('a pause is extended, never shortened, and does not open the circuit', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(1_000), fc.nat(90_000)), { minLength: 1 }), (pauses) => {
      let state = CLOSED;
      let now = 1;
      let latest = 0;
      for (const [afterMs, waitMs] of pauses) {
        now += afterMs;
        state = afterCall(state, { kind: 'throttle', waitMs }, at(now));
        latest = Math.max(latest, now + waitMs);
      }
      return state.throttledUntil === latest && state.openUntil === 0 && state.failures === 0;
    }),
  );
  const paused = afterCall(CLOSED, { kind: 'throttle', waitMs: 60 }, at(0));
  t.strictSame(admit(paused, 10, RULES), { kind: 'throttled', retryAfterMs: 50 });
});

t.test('a circuit is never open for longer than a cooldown and a lost trial from now', async () => {
  fc.assert(
    fc.property(happenings, (life) => {
      let state = CLOSED;
      let now = 1;
      for (const { afterMs, end } of life) {
        now += afterMs;
        const admission = admit(state, now, RULES);
        if (isKeptOut(admission)) continue;
        const asTrial = admission.kind === 'trial';
        state = afterCall(asTrial ? admission.state : state, end, at(now, asTrial));
        const quiet = Math.max(state.openUntil, state.probeUntil, state.throttledUntil);
        if (state.openUntil > now + RULES.cooldownMs) return false;
        if (isKeptOut(admit(state, quiet, RULES))) return false;
      }
      return true;
    }),
  );
});

t.test('a stored circuit is read as it was written, any other text as closed', async (t) => {
  const state: CircuitState = { failures: 2, openUntil: 5, probeUntil: 0, throttledUntil: 7 };
  t.strictSame(readCircuit(JSON.stringify(state)), state);
  for (const text of [
    null,
    '',
    'x',
    '[]',
    'null',
    '{}',
    '{"failures":0,"openUntil":0,"probeUntil":0,"throttledUntil":1e300}',
    '{"failures":-1,"openUntil":0,"probeUntil":0,"throttledUntil":0}',
  ]) {
    t.strictSame(readCircuit(text), CLOSED, String(text));
  }
});
