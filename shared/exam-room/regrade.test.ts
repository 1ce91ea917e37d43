import fc from 'fast-check';
import t from 'tap';
import type { Attempt, StoredAnswer } from '#shared/attempt/attempt.ts';
import { bindingCorrections, type Correction, correctedPaper, maxScoreOf } from '#shared/attempt/correction.ts';
import type { Paper, Question } from '#shared/attempt/question.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { sampleAnswer, sampleAttempt, sampleOptions, samplePaper } from '#testing/stored/sample-attempt.ts';
import { changeFaults, copyChanges, openPaperCheck, type Regraded, regrade } from './regrade.ts';

const OPTIONS = ['a', 'b', 'c', 'd'];
/** Units of a point. With these full marks, each share of a ladder is a whole number of units. */
const UNITS = 10_000;
const mark = fc.constantFrom(2_500, 5_000, 10_000, 20_000);
const truth = fc.array(fc.boolean(), { minLength: 4, maxLength: 4 });

/** A question as the oracle knows it: its kind, its mark, and its key as plain values. */
interface Known {
  kind: 'one' | 'group' | 'number' | 'essay';
  mark: number;
  key: string | boolean[] | number;
}

const known: fc.Arbitrary<Known> = fc.oneof(
  fc.record({ kind: fc.constant('one' as const), mark, key: fc.constantFrom(...OPTIONS) }),
  fc.record({ kind: fc.constant('group' as const), mark, key: truth }),
  fc.record({ kind: fc.constant('number' as const), mark, key: fc.nat(3) }),
  fc.record({ kind: fc.constant('essay' as const), mark, key: fc.constant('') }),
);

function keyOf({ kind, key }: Pick<Known, 'kind' | 'key'>): Question['answerKey'] {
  if (kind === 'one') return { correctOptionIds: [key as string] };
  if (kind === 'number') return { numericAnswers: [{ value: key as number }] };
  if (kind === 'essay') return {};
  return { statements: (key as boolean[]).map((value, index) => ({ statementId: OPTIONS[index] ?? '', value })) };
}

function questionOf(one: Known, index: number): Partial<Question> {
  const common = { questionId: `q-${index}`, score: one.mark / UNITS, answerKey: keyOf(one) };
  const options = sampleOptions(...OPTIONS);
  switch (one.kind) {
    case 'one':
      return { ...common, type: 'SINGLE_CHOICE', options, scoringRule: { mode: 'EXACT' } };
    case 'group':
      return { ...common, type: 'TRUE_FALSE_GROUP', options, scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' } };
    case 'number':
      return { ...common, type: 'NUMERIC', options: [], scoringRule: { mode: 'NUMERIC' } };
    case 'essay':
      return { ...common, type: 'ESSAY', options: [], scoringRule: { mode: 'ESSAY' } };
  }
}

/** An answer, with the points in units that a person gave an essay; null: none yet. Undefined: the student left the question out. */
type Given = { pick: string; marks: boolean[]; number: number; points: number | null } | undefined;
const given: fc.Arbitrary<Given> = fc.option(
  fc.record({
    pick: fc.constantFrom(...OPTIONS),
    marks: truth,
    number: fc.nat(3),
    points: fc.option(fc.constantFrom(0, 1_250, 2_500)),
  }),
  { nil: undefined },
);

function contentOf({ kind }: Known, { pick, marks, number }: NonNullable<Given>): Partial<StoredAnswer> {
  if (kind === 'one') return { selected: [pick] };
  if (kind === 'number') return { text: String(number) };
  if (kind === 'essay') return { text: 'Bài làm' };
  return { statements: marks.map((value, index) => ({ statementId: OPTIONS[index] ?? '', value })) };
}

/** Changes of one regrade: by the place of a question, an award or the key of a known one. */
const change = fc.record({
  at: fc.nat(7),
  award: fc.option(fc.constantFrom('FULL' as const, 'EXCLUDE' as const)),
  known,
});
type Change = typeof change extends fc.Arbitrary<infer One> ? One : never;

/** Keeps the changes that a regrade may have: of a question once, a key only for a question of its kind. */
function sound(changes: readonly Change[], exam: readonly Known[]): Change[] {
  const seen = new Set<number>();
  return changes.flatMap((one) => {
    const at = one.at % exam.length;
    const kind = exam[at]?.kind;
    if (seen.has(at) || (one.award === null && (kind === 'essay' || kind !== one.known.kind))) return [];
    seen.add(at);
    return [{ ...one, at }];
  });
}

const correctionOf = ({ at, award, known: other }: Change): Correction => ({
  questionId: `q-${at}`,
  questionVersionId: null,
  ...(award === null ? { answerKey: keyOf(other) } : { award }),
});

/** The oracle: units of one question under all changes so far; null for a pending essay or a question that is out. */
function points(exam: readonly Known[], index: number, answer: Given, changes: readonly Change[]): number | null {
  const one = exam[index] as Known;
  const own = changes.filter(({ at }) => at === index);
  const last = own.at(-1);
  if (last?.award === 'EXCLUDE') return null;
  if (last?.award === 'FULL') return one.mark;
  if (answer === undefined) return 0;
  const key = own.findLast(({ award }) => award === null)?.known.key ?? one.key;
  if (one.kind === 'one') return answer.pick === key ? one.mark : 0;
  if (one.kind === 'number') return answer.number === key ? one.mark : 0;
  if (one.kind === 'essay') return answer.points;
  const right = answer.marks.filter((value, at) => value === (key as boolean[])[at]).length;
  return (([0, 1_000, 2_500, 5_000, 10_000][right] as number) * one.mark) / UNITS;
}

const sumOf = (scores: readonly (number | null)[]) => scores.reduce<number>((sum, score) => sum + (score ?? 0), 0);
const isOut = (changes: readonly Change[], index: number) =>
  changes.findLast(({ at }) => at === index)?.award === 'EXCLUDE';
const units = (score: number | null) => (score === null ? null : Math.round(score * UNITS));

t.test('an independent oracle regrades 1,000 random attempts alike, twice in a row', async (t) => {
  const sitting = fc.record({
    exam: fc.array(known, { minLength: 1, maxLength: 8 }),
    answers: fc.array(given, { minLength: 8, maxLength: 8 }),
    first: fc.array(change, { maxLength: 4 }),
    second: fc.array(change, { maxLength: 4 }),
  });
  const met = { up: 0, down: 0, same: 0, out: 0 };
  fc.assert(
    fc.property(sitting, ({ exam, answers, first, second }) => {
      const paper = samplePaper(...exam.map(questionOf));
      const rounds = [sound(first, exam), sound(second, exam)];
      let attempt = graded(paper, exam, answers);
      const earlier: Change[] = [];
      for (const changes of rounds) {
        const about = { earlier: earlier.map(correctionOf), changes: changes.map(correctionOf) };
        const result = atOnce(regrade(paper, about, attempt));
        const before = exam.map((_, index) => points(exam, index, answers[index], earlier));
        earlier.push(...changes);
        const after = exam.map((_, index) => points(exam, index, answers[index], earlier));
        const max = exam.map(({ mark: full }, index) => (isOut(earlier, index) ? 0 : full));

        t.equal(units(result.after.totalScore), sumOf(after));
        t.equal(units(result.before.totalScore), sumOf(before));
        t.equal(units(result.after.maxScore), sumOf(max));
        t.strictSame(
          result.questions.map((one) => [one.questionId, units(one.before), units(one.after)]),
          exam.flatMap((_, index) =>
            before[index] === after[index] ? [] : [[`q-${index}`, before[index], after[index]]],
          ),
        );
        const pending = after.filter((score, index) => score === null && !isOut(earlier, index)).length;
        const { totals } = result.grading;
        t.equal(totals.pendingManualCount, pending);
        t.equal(totals.correctCount + totals.wrongCount + pending, max.filter((full) => full > 0).length);

        const direction = Math.sign(sumOf(after) - sumOf(before));
        met[direction > 0 ? 'up' : direction < 0 ? 'down' : 'same'] += 1;
        if (earlier.some(({ award }) => award === 'EXCLUDE')) met.out += 1;
        attempt = regradedAttempt(attempt, result);
        const again = atOnce(regrade(paper, { earlier: earlier.map(correctionOf), changes: [] }, attempt));
        t.notOk(again.differs, 'a second time changes nothing');
      }
    }),
    { numRuns: 1_000 },
  );
  for (const [what, times] of Object.entries(met)) t.ok(times > 20, `${what}: ${times}`);
});

/** Returns an attempt as its grading and the grades by hand have left it. */
function graded(paper: Paper, exam: readonly Known[], answers: readonly Given[]) {
  const stored = Object.fromEntries(
    exam.flatMap((one, index) => {
      const answer = answers[index];
      return answer === undefined ? [] : [[`q${index}`, sampleAnswer(contentOf(one, answer))]];
    }),
  );
  const grading = atOnce(gradeAttempt(paper, stored));
  for (const [index, one] of exam.entries()) {
    const by = answers[index]?.points;
    if (one.kind === 'essay' && by != null)
      grading.answers[`q${index}`] = { isCorrect: by === one.mark, score: by / UNITS };
  }
  const ungraded = { ...grading.totals, answers: withGrades(stored, grading.answers), maxScore: maxScoreOf(paper) };
  return regradedAttempt(ungraded, atOnce(regrade(paper, { earlier: [], changes: [] }, ungraded)));
}

function regradedAttempt(attempt: Pick<Attempt, 'answers'>, { grading, after }: Regraded) {
  return { answers: withGrades(attempt.answers, grading.answers), ...grading.totals, ...after };
}

function withGrades(answers: Attempt['answers'], grades: Regraded['grading']['answers']): Attempt['answers'] {
  return Object.fromEntries(Object.entries(answers).map(([key, answer]) => [key, { ...answer, ...grades[key] }]));
}

t.test('a correction of one version leaves the others alone, and a key takes an award back', async (t) => {
  const paper = samplePaper(
    { questionId: 'q', questionVersionId: 'v1' },
    { questionId: 'other', questionVersionId: 'v1' },
  );
  const of = (questionVersionId: string | null): Correction => ({ questionId: 'q', questionVersionId, award: 'FULL' });
  t.equal(correctedPaper(paper, [of('v2')]), paper, 'the same paper');
  t.strictSame(
    correctedPaper(paper, [of('v1')]).questions.map(({ award }) => award),
    ['FULL', undefined],
  );
  const key = { questionId: 'q', questionVersionId: null, answerKey: { correctOptionIds: ['b'] } };
  const [question] = correctedPaper(paper, [of(null), key]).questions;
  t.strictSame(question, { ...paper.questions[0], answerKey: key.answerKey });
});

t.test('an attempt whose student was erased keeps the corrections of its grade', async (t) => {
  const by = { id: 'admin-1', role: 'ADMIN' } as const;
  const changes: Correction[] = [{ questionId: 'q', questionVersionId: null, award: 'FULL' }];
  const at = (hour: number) => new Date(Date.UTC(2026, 4, 4, hour));
  const attempt = sampleAttempt({ startedAt: at(3) });
  const bound = (erasedAt: Date | null) =>
    bindingCorrections({ ...attempt, erasedAt }, [{ number: 1, changes, by, appliedAt: at(5) }]).length;
  t.strictSame([bound(null), bound(at(6)), bound(at(4))], [1, 1, 0]);
});

t.test('a regrade binds the attempts that its maker examines, and who applied it', async (t) => {
  const [by, appliedAt] = [{ id: 'admin-1', role: 'ADMIN' } as const, new Date(Date.UTC(2027, 0, 1))];
  const changes: Correction[] = [{ questionId: 'q', questionVersionId: null, award: 'FULL' }];
  const attempt = sampleAttempt({
    scope: { createdById: 'own', assignedClassroomIds: [], resultViewerTeacherIds: [] },
  });
  const bound = (...ids: string[]) => {
    const [maker, appliedBy = by] = ids.map((id) => ({ id, role: 'TEACHER' as const }));
    return bindingCorrections(attempt, [{ number: 1, changes, by: maker ?? by, appliedBy, appliedAt }]).length === 1;
  };
  t.strictSame(
    [bound(), bound('own'), bound('other'), bound('own', 'own'), bound('own', 'other')],
    [true, true, false, true, false],
  );
});

t.test('an award replaces a grade by hand that stands, and what it takes out waits no longer', async (t) => {
  const essay = { type: 'ESSAY', options: [], scoringRule: { mode: 'ESSAY' as const }, answerKey: {} };
  const award = (score: number, kind: 'FULL' | 'EXCLUDE') =>
    correctedPaper(samplePaper({ ...essay, questionId: 'q', score }), [
      { questionId: 'q', questionVersionId: null, award: kind },
    ]);
  const stands = { q0: { ...sampleAnswer({ text: 'Bài làm' }), standing: { isCorrect: false, score: 1 } } };
  t.match(atOnce(gradeAttempt(award(3, 'FULL'), stands)).answers, { q0: { isCorrect: true, score: 3 } });
  t.match(atOnce(gradeAttempt(award(3, 'EXCLUDE'), stands)).answers, { q0: { score: null } });

  const practice = samplePaper({ ...essay, questionId: 'q', score: 0 });
  const answers = { q0: sampleAnswer({ text: 'Bài làm' }) };
  const pending = { answers, maxScore: 0, totalScore: 0, correctCount: 0, wrongCount: 0, pendingManualCount: 1 };
  const changes: Correction[] = [{ questionId: 'q', questionVersionId: null, award: 'EXCLUDE' }];
  const { differs, grading } = atOnce(regrade(practice, { earlier: [], changes }, pending));
  t.strictSame([differs, grading.totals.pendingManualCount], [true, 0]);
});

t.test('changes are refused with the path of each fault', async (t) => {
  const essay = {
    questionId: 'essay',
    type: 'ESSAY',
    options: [],
    scoringRule: { mode: 'ESSAY' as const },
    answerKey: {},
  };
  const paper = samplePaper({ questionId: 'one' }, essay);
  const refusal = (...changes: Parameters<typeof copyChanges>[0][number][]) => {
    const copies = copyChanges(changes);
    const check = openPaperCheck(copies);
    check.see(paper);
    const own = changeFaults(copies);
    return own.length > 0 ? own.map(({ path }) => path) : (check.end()?.details ?? []).map(({ path }) => path);
  };
  const key = { correctOptionIds: ['b'] };
  t.strictSame(refusal({ questionId: 'one', answerKey: key }, { questionId: 'essay', award: 'EXCLUDE' }), []);
  t.strictSame(refusal({ questionId: 'one' }, { questionId: 'one', award: 'FULL', answerKey: key }), [
    '/changes/0',
    '/changes/1',
    '/changes/1/questionId',
  ]);
  t.strictSame(refusal({ questionId: 'one', answerKey: { correctOptionIds: ['x'] } }), [
    '/changes/0/answerKey/correctOptionIds/0',
  ]);
  t.strictSame(refusal({ questionId: 'one', answerKey: { correctOptionIds: ['a', 'b'] } }), [
    '/changes/0/answerKey/correctOptionIds',
  ]);
  t.strictSame(refusal({ questionId: 'one', scoringRule: { mode: 'MANUAL' } }), ['/changes/0/scoringRule/mode']);
  t.strictSame(refusal({ questionId: 'essay', answerKey: key }), ['/changes/0/answerKey']);
  t.strictSame(refusal({ questionId: 'none', award: 'FULL' }), ['/changes/0/questionId']);
  const rule = { mode: 'PARTIAL' as const, maxScore: 1e-300, incorrectPenalty: 1e300, minScore: -1e300 };
  t.strictSame(refusal({ questionId: 'one', scoringRule: rule }), ['/changes'], 'a total that no number holds');
  const check = openPaperCheck(copyChanges([{ questionId: 'none', award: 'FULL' }]));
  check.see(paper);
  t.equal(check.end()?.rejected, 'QUESTION_NOT_IN_EXAM');
});
