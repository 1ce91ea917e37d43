import fc from 'fast-check';
import t from 'tap';
import { type ExamWalk, lateSeconds, readWalkCursor, walkCursor } from './exam-walk.ts';

const walks = fc.record<ExamWalk>({
  examId: fc.string({ minLength: 1, maxLength: 128 }),
  status: fc.constantFrom(null, 'IN_PROGRESS', 'SUBMITTED', 'GRADED'),
  student: fc.option(fc.string({ minLength: 1, maxLength: 128 })),
});
const ids = fc.string({ minLength: 1, maxLength: 128 });

t.test('a cursor leads back to its place, and in its own walk alone', async () => {
  fc.assert(
    fc.property(walks, walks, ids, (walk, other, id) => {
      const isSame = JSON.stringify(walk) === JSON.stringify(other);
      const cursor = walkCursor(walk, id);
      return readWalkCursor(walk, cursor) === id && (isSame || readWalkCursor(other, cursor) === null);
    }),
  );
});

t.test('text that no reply contained is no cursor', async (t) => {
  const walk: ExamWalk = { examId: 'e', status: null, student: null };
  const packed = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  for (const parts of [[], ['e', null, null], ['e', null, null, ''], ['e', null, null, 1], ['e', null, null, 'a', 'b']])
    t.equal(readWalkCursor(walk, packed(parts)), null, JSON.stringify(parts));
  for (const cursor of ['', 'x', packed(null), packed({ 0: 'e', length: 4 }), packed('e'), '%']) {
    t.equal(readWalkCursor(walk, cursor), null, cursor);
  }
});

t.test('an attempt is late from its deadline on, and a submit only after it', async (t) => {
  const deadlineAt = new Date(60_000);
  const late = (submittedAt: number | null, now: number) =>
    lateSeconds({ deadlineAt, submittedAt: submittedAt === null ? null : new Date(submittedAt) }, now);
  t.equal(late(null, 59_999), null);
  t.equal(late(null, 60_000), 0);
  t.equal(late(null, 62_999), 2);
  t.equal(late(59_999, 99_000), null);
  t.equal(late(60_000, 99_000), null, 'a submit by deadline');
  t.equal(late(61_500, 99_000), 1, 'the time of the submit counts, not the present one');
  t.equal(lateSeconds({ deadlineAt: null, submittedAt: null }, 99_000), null);
});
