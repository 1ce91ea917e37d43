import fc from 'fast-check';
import t from 'tap';
import { parseBody } from '#api/http/json.ts';
import { LARGE_BODY, SMALL_BODY } from '#api/route.ts';
import { loadSchemas, openAnswerChecks } from '#infra/schema/validator.ts';
import { copyPaper, paperFaults } from '#shared/attempt/copy-paper.ts';
import { copyHandoff, decideHandoff, type HandoffBody } from '#shared/attempt/handoff.ts';
import type { StartBody } from '#shared/attempt/start-body.ts';
import type {
  EssayGradeRequest,
  GeneratedQuestion,
  GeneratedQuestionType,
  GeneratePayload,
} from '#shared/generated/classifier.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { startBody } from '#testing/clients/attempt-client.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { essayGradePreview } from './preview.ts';
import { taskRequest, taskResult } from './tasks/envelope.ts';
import { gradeFaults, gradeTask, readGrade } from './tasks/explain-and-grade.ts';
import { generateTask, readGeneration } from './tasks/generate.ts';
import { readAnswer, valueFaults } from './tasks/read-answer.ts';
import type { ModelTask } from './tasks/task.ts';

/** Tests that the routes of this product accept what previews return, whatever a model has written. */

const seed = Date.now() & 0x7fffffff;
const schemas = loadSchemas();
const checkOf = openAnswerChecks();
const ABOUT = {
  taskId: 'preview-1',
  organizationId: 'org-1',
  actorId: 'teacher-1',
  requestId: 'request-1',
  jobId: null,
  batchIndex: null,
};

/** Returns an answer as the provider call reads it; undefined if it is repaired or refused. */
function acceptedAnswer(task: ModelTask, written: unknown): unknown {
  const json = readAnswer(JSON.stringify(written), task.schema);
  const faults = [...valueFaults(json), ...checkOf(task.schema)(json)];
  return faults.length > 0 || (task.senseFaults?.(json) ?? []).length > 0 ? undefined : json;
}

/** Requires that a route with this body accepts it as JSON, by its size and by its schema. Returns its value. */
function sent(body: unknown, schema: string, maxBytes: number): unknown {
  const bytes = Buffer.from(JSON.stringify(body));
  if (bytes.length > maxBytes) throw new Error(`the body has ${bytes.length} bytes`);
  const parsed = atOnce(parseBody(bytes));
  if (isRejection(parsed)) throw new Error(parsed.rejected);
  const faults = [...parsed.faults, ...schemas.validator(schema)(parsed.value)];
  if (faults.length > 0) throw new Error(JSON.stringify(faults));
  return parsed.value;
}

const ODD = ['\u200b', '\u3164', '\ufeff', ' \u2060 ', '\u00a0', '\u2028x', '<p></p>', '__proto__', '$where', 'a.b'];
const LONG = ['x', 'ệ', '"', '😀', '\\', '\n'].map((unit) => unit.repeat(20_000));
const text = (longest: number) =>
  fc.oneof(
    { weight: 16, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 20 }) },
    { weight: 2, arbitrary: fc.constantFrom(...ODD) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(fc.constantFrom(...LONG), fc.nat(longest))
        .map(([long, length]) => [...long].slice(0, length).join('')),
    },
    { weight: 1, arbitrary: fc.constantFrom(...LONG).map((long) => [...long].slice(0, longest).join('')) },
  );
const line = text(5_000);
const four = <Item>(item: fc.Arbitrary<Item>) => fc.array(item, { minLength: 4, maxLength: 4 });
const tenOf = (characters: number) =>
  fc.constantFrom(...LONG).map((long) => Array.from({ length: 10 }, () => [...long].slice(0, characters).join('')));
const position = fc.integer({ min: 0, max: 3 });

/** Parts of a written question and the modes in which a start may score it, by type. */
const WRITTEN: Readonly<Record<GeneratedQuestionType, [Record<string, fc.Arbitrary<unknown>>, string[]]>> = {
  SINGLE_CHOICE: [{ options: four(line), correctIndexes: fc.tuple(position) }, ['EXACT']],
  MULTIPLE_CHOICE: [
    { options: four(line), correctIndexes: fc.array(position, { minLength: 1, maxLength: 4 }) },
    ['EXACT', 'PARTIAL'],
  ],
  TRUE_FALSE_GROUP: [
    { statements: four(fc.record({ content: line, isTrue: fc.boolean() })) },
    ['THPT_TRUE_FALSE_LADDER', 'TRUE_FALSE_GROUP'],
  ],
  SHORT_TEXT: [
    {
      acceptedTexts: fc.oneof(
        fc.array(fc.oneof(text(400), line), { minLength: 1, maxLength: 10 }),
        tenOf(400),
        tenOf(5_000),
      ),
    },
    ['SHORT_TEXT', 'EXACT'],
  ],
  NUMERIC: [
    {
      value: fc.oneof(
        fc.double({ noDefaultInfinity: true, noNaN: true }),
        fc.double({ min: -1e6, max: 1e6, noNaN: true }),
      ),
      tolerance: fc.oneof(fc.double({ min: 0, max: 1e308, noNaN: true }), fc.constantFrom(0, 0.01)),
    },
    ['NUMERIC', 'EXACT'],
  ],
  ESSAY: [{}, ['ESSAY', 'MANUAL']],
};

for (const [questionType, [parts, modes]] of Object.entries(WRITTEN) as [
  GeneratedQuestionType,
  [Record<string, fc.Arbitrary<unknown>>, string[]],
][]) {
  t.test(`a start and an explanation accept every generated ${questionType} (seed ${seed})`, async (t) => {
    const payload: GeneratePayload = {
      mode: 'fresh',
      subject: 'Toán',
      gradeLevel: '12',
      topic: 'Đạo hàm',
      questionType,
      difficulty: 'dễ',
      count: 20,
      language: 'vi',
      instructions: null,
      references: [],
    };
    const task = generateTask(payload);
    const question = fc.record({ content: line, ...parts, explanation: text(20_000) });
    let accepted = 0;
    fc.assert(
      fc.property(fc.array(question, { minLength: 1, maxLength: 3 }), (written) => {
        const answer = acceptedAnswer(task, { questions: written });
        const read = answer === undefined ? null : readGeneration(payload, answer);
        if (read === null) return;
        const { questions } = read;
        accepted += 1;
        for (const mode of modes) startWith(questions, mode);
        for (const generated of questions) sent(generated, 'classifier/explanation-request', SMALL_BODY);
      }),
      { seed, numRuns: 200 },
    );
    t.ok(accepted > 10, `${accepted} answers are accepted`);
  });
}

/** Requires that a start accepts these questions with this mode. */
function startWith(questions: readonly GeneratedQuestion[], mode: string): void {
  const asked = questions.map((question) => ({
    ...question,
    questionId: question.tempId,
    score: 1,
    scoringRule: { mode },
  }));
  const body = sent(startBody('exam-1', { questions: asked }), 'attempt/start-request', LARGE_BODY);
  const faults = atOnce(paperFaults(body, []));
  const paper = atOnce(copyPaper((body as StartBody).questions));
  if (faults.length > 0 || isRejection(paper)) throw new Error(`${mode}: ${JSON.stringify([faults, paper])}`);
}

t.test(`the attempt service accepts and applies the handoff of every grade (seed ${seed})`, async (t) => {
  const name = fc.oneof(fc.constantFrom('Ý', 'ệ'.repeat(500), '😀'.repeat(500)), fc.string({ minLength: 1 }));
  const criterion = fc.record({
    name,
    maxScore: fc.oneof(
      fc.double({ min: 1e-6, max: 1_000_000, noNaN: true }),
      fc.constantFrom(0.1, 1 / 3, 2, 1_000_000 / 50),
    ),
    share: fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 1, 1 / 3)),
    comment: fc.oneof(text(5_000), fc.constantFrom('', ' ')),
  });
  let accepted = 0;
  const many = (one: fc.Arbitrary<typeof criterion extends fc.Arbitrary<infer C> ? C : never>) =>
    fc.array(one, { minLength: 50, maxLength: 50 });
  const longest = fc.constantFrom(...LONG).map((long) => [...long].slice(0, 5_000).join(''));
  const rubrics = fc.oneof(
    { weight: 3, arbitrary: fc.array(criterion, { minLength: 1, maxLength: 5 }) },
    { weight: 1, arbitrary: many(criterion) },
    // 50 comments of 5,000 characters have more bytes than the handoff route reads.
    {
      weight: 1,
      arbitrary: fc
        .tuple(many(criterion), longest, fc.oneof(fc.integer({ min: 1, max: 5_000 }), fc.constant(10_000)))
        .map(([all, comment, length]) => all.map((one) => ({ ...one, comment: comment.slice(0, length) }))),
    },
  );
  fc.assert(
    fc.property(rubrics, fc.oneof(text(20_000), fc.constant('')), (parts, feedback) => {
      const criteria = parts.map(({ name, maxScore }, n) => ({ id: `crit ${n}`, name, maxScore }));
      const maxScore = criteria.reduce((sum, one) => sum + one.maxScore, 0);
      const essay: EssayGradeRequest = {
        questionId: 'question-1',
        prompt: 'Tả con sông',
        answerText: 'Sông dài.',
        maxScore,
        rubric: { criteria },
      };
      if (schemas.validator('classifier/essay-grade-request')(structuredClone(essay)).length > 0) return;
      if (gradeFaults(essay).length > 0) return;
      const scores = parts.map(({ maxScore, share, comment }, n) => [
        `c${n + 1}`,
        { score: maxScore * share, comment },
      ]);
      const answer = acceptedAnswer(gradeTask(essay), { criteria: Object.fromEntries(scores), feedback });
      const grade = answer === undefined ? null : readGrade(essay, answer);
      if (grade === null) return;
      accepted += 1;
      const from = { provider: 'openai', model: 'm'.repeat(128), usage: { inputTokens: 1, outputTokens: 1 } };
      const preview = essayGradePreview(taskResult(taskRequest('grade', essay, ABOUT), grade, from, Date.now()), essay);
      const body = sent(preview.handoff, 'attempt/essay-grade-handoff-request', SMALL_BODY);
      const faults = schemas.validator('classifier/essay-grade-preview')(structuredClone(preview));
      const decision = decideHandoff(
        sampleAttempt({ status: 'GRADED', answers: { q0: sampleAnswer({ text: 'Sông dài.' }) } }),
        samplePaper({ type: 'ESSAY', score: maxScore, options: [], answerKey: {}, scoringRule: { mode: 'MANUAL' } }),
        copyHandoff(body as HandoffBody),
        new Date(),
      );
      if (faults.length > 0 || decision.kind !== 'apply') throw new Error(JSON.stringify([faults, decision]));
    }),
    { seed, numRuns: 200 },
  );
  t.ok(accepted > 10, `${accepted} grades are accepted`);
});
