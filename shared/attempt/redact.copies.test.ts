import fc from 'fast-check';
import t from 'tap';
import { sampleAttempt, sampleOptions, samplePaper } from '#testing/stored/sample-attempt.ts';
import type { Attempt } from './attempt.ts';
import { redactAttempt } from './redact.ts';
import type { Viewer } from './visibility.ts';

/** Tests the parts of a start request that replies repeat: the options in their order, and the student info. */

const now = new Date('2026-05-04T06:00:00.000Z');
const ADMIN: Viewer = { role: 'ADMIN', id: 'admin-1' };
const STUDENT: Viewer = { role: 'STUDENT', id: 'student-1' };
const paper = samplePaper({ options: sampleOptions('a', 'b', 'c'), optionOrder: [2, 0, 1] });

/** Returns an attempt whose shuffled option order overrides the order of the paper. */
const shuffled = (overrides: Partial<Attempt> = {}) => sampleAttempt({ optionOrders: [[1, 0, 2]], ...overrides });

const detailFor = (attempt: Attempt, viewer: Viewer) => redactAttempt({ attempt, paper, events: [] }, viewer, now);

t.test('examiners receive the options in authored order, all other viewers in the order of optionOrder', async (t) => {
  const idsFor = (attempt: Attempt, viewer: Viewer) =>
    detailFor(attempt, viewer).questions.flatMap((question) => question.options.map(({ id }) => id));
  const others = [STUDENT, { role: 'SERVICE', id: '' }, { role: 'TEACHER', id: 'teacher-9' }] as const;
  for (const status of ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const) {
    for (const viewer of others) {
      t.strictSame(idsFor(shuffled({ status }), viewer), ['b', 'a', 'c'], `${viewer.role}, shuffled`);
      t.strictSame(idsFor(shuffled({ status, optionOrders: [] }), viewer), ['c', 'a', 'b'], `${viewer.role}, as sent`);
    }
    for (const viewer of [ADMIN, { role: 'TEACHER', id: 'teacher-1' } as const]) {
      const { options, optionOrder } = detailFor(shuffled({ status }), viewer).questions[0] ?? {};
      t.strictSame([options, optionOrder], [sampleOptions('a', 'b', 'c'), ['b', 'a', 'c']], viewer.role);
    }
  }
});

t.test('a reply to a student does not depend on the authored order of the options', async () => {
  const orders = fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 });
  fc.assert(
    fc.property(orders, orders, (authored, seen) => {
      const ids = authored.map((position) => 'abcd'.charAt(position));
      const wanted = seen.map((position) => 'abcd'.charAt(position));
      const positions = wanted.map((id) => ids.indexOf(id));
      const options = sampleOptions(...ids);
      const reply = (attempt: Attempt, optionOrder: number[] | null) =>
        JSON.stringify(
          redactAttempt({ attempt, paper: samplePaper({ options, optionOrder }), events: [] }, STUDENT, now).questions,
        );
      const plain = redactAttempt(
        { attempt: sampleAttempt(), paper: samplePaper({ options: sampleOptions(...wanted) }), events: [] },
        STUDENT,
        now,
      );
      const expected = JSON.stringify(plain.questions);
      return (
        reply(sampleAttempt({ optionOrders: [positions] }), null) === expected &&
        reply(sampleAttempt(), positions) === expected
      );
    }),
  );
});

t.test('a detail contains the whole student info', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (info) => {
      const text = JSON.stringify(info);
      return JSON.stringify(detailFor(shuffled({ studentInfo: text }), STUDENT).studentInfo) === text;
    }),
  );
});
