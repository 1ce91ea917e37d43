import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import {
  sampleAnswer,
  sampleAttempt,
  sampleOptions,
  samplePaper,
  sampleQuestion,
} from '#testing/stored/sample-attempt.ts';
import { answerBytes, answerFaults, answerFields, fitAnswer, pickAnswer, type SaveBody } from './answer.ts';
import type { Attempt } from './attempt.ts';
import { MAX_ANSWER_BYTES } from './limits.ts';
import { type Question, questionIdAt } from './question.ts';
import { fitSave, whySaveRefused } from './save-rules.ts';
import type { Viewer } from './visibility.ts';

const single = sampleQuestion();
const group = sampleQuestion({ type: 'TRUE_FALSE_GROUP' });
const text = sampleQuestion({ type: 'ESSAY', options: [] });

/** Returns the content to store, or the error code and the paths of the faults. */
function read(body: Omit<SaveBody, 'questionId'>, question: Question = single): unknown {
  const picked = pickAnswer({ questionId: question.questionId, ...body });
  const content = isRejection(picked) ? picked : fitAnswer(picked, question);
  if (!isRejection(content)) return content;
  return [content.rejected, ...(content.details ?? []).map(({ path }) => path)];
}

t.test('an answer is read from `answer` or the top level, exactly as sent', async (t) => {
  t.strictSame(read({ answer: { selectedOptionIds: ['a'] } }), { selected: ['a'] });
  t.strictSame(read({ selectedOptionIds: ['a'] }), { selected: ['a'] });
  t.strictSame(read({ answer: null, selectedOptionIds: ['a'], textAnswer: null }), { selected: ['a'] });
  t.strictSame(read({ selectedOptionIds: [] }), { selected: [] }, 'an empty selection deletes the answer');
  t.strictSame(read({ textAnswer: ' $x \u0000 Á ' }, text), { text: ' $x \u0000 Á ' });
  const judged = [{ statementId: 'a', value: true }, { statementId: 'b' }, { statementId: 'c', value: null }];
  t.strictSame(read({ statementAnswers: judged }, group), {
    statements: [
      { statementId: 'a', value: true },
      { statementId: 'b', value: null },
      { statementId: 'c', value: null },
    ],
  });
});

const EMPTIES = [
  { selectedOptionIds: [], statementAnswers: [], textAnswer: '' },
  { selectedOptionIds: null, statementAnswers: null, textAnswer: '' },
  { selectedOptionIds: [], statementAnswers: null, textAnswer: null },
  { selectedOptionIds: null, statementAnswers: null, textAnswer: null },
];
const judgement = [{ statementId: 'a', value: true }];
const FILLED: [SaveBody['answer'] & object, Question, object][] = [
  [{ selectedOptionIds: ['b'] }, single, { selected: ['b'] }],
  [{ statementAnswers: judgement }, group, { statements: judgement }],
  [{ textAnswer: ' ' }, text, { text: ' ' }],
];

t.test('an empty member beside a filled one is ignored, nested and at the top level', async (t) => {
  for (const empty of EMPTIES) {
    for (const [filled, question, stored] of FILLED) {
      t.strictSame(read({ answer: { ...empty, ...filled } }, question), stored);
      t.strictSame(read({ ...empty, ...filled }, question), stored);
      t.strictSame(read({ ...empty, answer: filled }, question), stored, 'empty ones beside the nested answer');
    }
  }
});

t.test('an answer with only empty members is stored as an empty answer of the kind that fits', async (t) => {
  for (const empty of EMPTIES) {
    for (const [question, stored] of [
      [single, { selected: [] }],
      [group, { statements: [] }],
      [text, { text: '' }],
      [sampleQuestion({ type: 'CLOZE', options: [], scoringRule: { mode: 'SHORT_TEXT' } }), { text: '' }],
    ] as const) {
      t.strictSame(read({ answer: empty }, question), stored);
      t.strictSame(read(empty, question), stored);
    }
  }
  t.strictSame(read({ answer: { selectedOptionIds: [] } }, text), { text: '' }, 'one empty member of another kind');
});

t.test('a filled member of the wrong kind is refused, whatever the other members are', async (t) => {
  for (const empty of EMPTIES) {
    const wrong = ['VALIDATION_FAILED', '/answer/textAnswer'];
    t.strictSame(read({ answer: { ...empty, textAnswer: 'x' } }), wrong);
    t.strictSame(read({ answer: { ...empty, selectedOptionIds: ['a'], textAnswer: 'x' } }), [
      'VALIDATION_FAILED',
      '/answer',
    ]);
  }
});

t.test('a question of an unknown type takes the answer kind of its mode', async (t) => {
  const named = (change: Partial<Question>) => sampleQuestion({ type: 'PICK', ...change });
  t.strictSame(read({ selectedOptionIds: ['a', 'b'] }, named({})), { selected: ['a', 'b'] }, 'more than one option');
  t.strictSame(read({ statementAnswers: judgement }, named({ scoringRule: { mode: 'TRUE_FALSE_GROUP' } })), {
    statements: judgement,
  });
  for (const mode of ['SHORT_TEXT', 'NUMERIC', 'MANUAL', 'ESSAY'] as const) {
    t.strictSame(read({ textAnswer: 'x' }, named({ scoringRule: { mode } })), { text: 'x' }, mode);
  }
  t.strictSame(read({ textAnswer: 'x' }, named({ options: [] })), { text: 'x' });
  t.strictSame(read({ textAnswer: 'x' }, named({})), ['VALIDATION_FAILED', '/textAnswer']);
});

t.test('an answer in both places, without content or of two kinds is refused', async (t) => {
  const refused = (...paths: string[]) => ['VALIDATION_FAILED', ...paths];
  t.strictSame(read({ answer: { selectedOptionIds: ['a'] }, selectedOptionIds: ['a'] }), refused('/answer'));
  t.strictSame(read({ answer: {}, textAnswer: 'x' }), refused('/answer'));
  t.strictSame(read({}), refused(''));
  t.strictSame(read({ answer: {} }), refused('/answer'));
  t.strictSame(read({ answer: { selectedOptionIds: [] }, textAnswer: 'x' }), refused('/answer'));
  t.strictSame(read({ textAnswer: null }), refused(''), 'one null member is an absent one');
  t.strictSame(read({ selectedOptionIds: ['a'], textAnswer: 'x' }), refused(''));
});

t.test('an answer must have the kind that fits and contain only ids of the question', async (t) => {
  const refused = (...paths: string[]) => ['VALIDATION_FAILED', ...paths];
  t.strictSame(read({ textAnswer: 'a' }), refused('/textAnswer'));
  t.strictSame(read({ answer: { selectedOptionIds: ['a'] } }, group), refused('/answer/selectedOptionIds'));
  t.strictSame(read({ selectedOptionIds: ['a'] }, text), refused('/selectedOptionIds'));
  t.strictSame(
    read({ selectedOptionIds: ['y', 'a', 'z'] }, sampleQuestion({ type: 'MULTIPLE_CHOICE' })),
    refused('/selectedOptionIds/0', '/selectedOptionIds/2'),
  );
  t.strictSame(read({ selectedOptionIds: ['a', 'b'] }), refused('/selectedOptionIds'));
  t.strictSame(read({ selectedOptionIds: ['a', 'a'] }), { selected: ['a', 'a'] }, 'one option, selected twice');
  const judge = (...ids: string[]) => ({ statementAnswers: ids.map((statementId) => ({ statementId, value: true })) });
  t.strictSame(read(judge('a', 'z'), group), refused('/statementAnswers/1/statementId'));
  t.strictSame(read(judge('a', 'b', 'a'), group), refused('/statementAnswers/2/statementId'));
  const odd = sampleQuestion({ options: sampleOptions('a') });
  t.strictSame(read({ selectedOptionIds: ['__proto__'] }, odd), refused('/selectedOptionIds/0'));
});

t.test('the size of an answer is that of its JSON in UTF-8', async (t) => {
  t.equal(answerBytes({ text: 'é' }), Buffer.byteLength('{"text":"é"}'));
});

t.test('the fields of an answer have its kind; an answer whose text was not loaded throws', async (t) => {
  t.strictSame(answerFields({ selected: [] }), { selectedOptionIds: [] });
  t.strictSame(answerFields({ text: '' }), { textAnswer: '' });
  t.throws(() => answerFields({}));
});

t.test('a body with a schema fault elsewhere also gets the faults of its answer', async (t) => {
  const elsewhere = [{ path: '/questionId', message: 'must be string' }];
  const paths = (body: unknown, known = elsewhere) => answerFaults(body, known).map(({ path }) => path);
  const twice = { questionId: 5, answer: { textAnswer: 'a' }, textAnswer: 'b' };
  t.strictSame(paths(twice), ['/answer']);
  t.strictSame(paths({ questionId: 5 }), ['']);
  t.strictSame(paths({ questionId: 5, answer: { textAnswer: 'a' } }), []);
  for (const path of ['', '/answer', '/answer/textAnswer', '/textAnswer', '/selectedOptionIds/0']) {
    t.strictSame(paths(twice, [{ path, message: 'is broken' }]), [], path);
  }
  for (const body of [null, 5, 'text']) t.strictSame(paths(body), []);
});

const owner: Viewer = { role: 'STUDENT', id: 'student-1' };
const now = new Date('2026-05-04T03:30:00.000Z');
const paper = samplePaper({}, { type: 'ESSAY', options: [] });

interface Save {
  attempt?: Partial<Attempt>;
  questionId?: string;
  selected?: string[];
  clientVersion?: number;
  viewer?: Viewer;
  now?: Date;
}

function save(overrides: Save) {
  const attempt = sampleAttempt({ order: [0, 1], ...overrides.attempt });
  return whySaveRefused(attempt, place(overrides), overrides.viewer ?? owner, overrides.now ?? now);
}

function place({ questionId = 'question-1', selected = ['b'], clientVersion = 0 }: Save) {
  const answer = { content: { selected }, base: '' as const };
  return fitSave(sampleAttempt(), paper, { questionId, answer, clientVersion });
}

function verdict(overrides: Save): string {
  return save(overrides)?.rejected ?? 'accepted';
}

const stored = sampleAnswer({
  selected: ['a'],
  serverVersion: 3,
  clientVersion: 2,
  bytes: 100,
  isCorrect: true,
  score: 1,
});

t.test('a save that fits its paper is placed with its content and size', async (t) => {
  t.match(place({}), { paperIndex: 0, content: { selected: ['b'] }, bytes: 18, clientVersion: 0 });
});

t.test('a save may name its question by questionId or by its id in the attempt', async (t) => {
  const id = questionIdAt(sampleAttempt(), 0, { id: null });
  t.match(place({ questionId: id }), { paperIndex: 0 });
  t.equal(verdict({ questionId: id }), 'accepted');
  t.equal(verdict({ questionId: 'question-9' }), 'QUESTION_NOT_IN_ATTEMPT');
});

t.test('a save of a stale version is refused with the current answer, without its grade', async (t) => {
  const attempt = { answers: { q0: stored } };
  for (const clientVersion of [0, 3, 4]) t.equal(verdict({ attempt, clientVersion }), 'accepted');
  t.strictSame(save({ attempt, clientVersion: 2 }), {
    rejected: 'ANSWER_VERSION_CONFLICT',
    data: {
      answer: {
        questionId: 'question-1',
        answer: { selectedOptionIds: ['a'] },
        isCorrect: null,
        score: null,
        serverVersion: 3,
        clientVersion: 2,
        updatedAt: stored.updatedAt.toISOString(),
      },
    },
  });
  t.equal(verdict({ clientVersion: 2 }), 'accepted', 'no stored answer can be newer');
});

t.test('a refused save returns the first rule that fails', async (t) => {
  const late = new Date('2026-05-04T04:00:00.000Z');
  const wrong = { questionId: 'question-9', selected: ['z'], clientVersion: 1 };
  t.equal(verdict({ ...wrong, viewer: { role: 'STUDENT', id: 'student-2' } }), 'FORBIDDEN');
  t.equal(verdict({ ...wrong, viewer: { role: 'TEACHER', id: 'teacher-1' } }), 'FORBIDDEN');
  t.equal(verdict({ ...wrong, viewer: { role: 'ADMIN', id: 'student-1' } }), 'FORBIDDEN');
  t.equal(verdict({ ...wrong, attempt: { status: 'SUBMITTED' }, now: late }), 'ATTEMPT_LOCKED');
  t.equal(verdict({ ...wrong, now: late }), 'ATTEMPT_DEADLINE_EXPIRED', 'at the very instant');
  t.equal(verdict(wrong), 'QUESTION_NOT_IN_ATTEMPT');
  t.equal(verdict({ ...wrong, questionId: 'question-1', attempt: { answers: { q0: stored } } }), 'VALIDATION_FAILED');
  t.equal(verdict({ questionId: 'question-2' }), 'VALIDATION_FAILED', 'an option is no essay');
  t.equal(verdict({ attempt: { deadlineAt: null }, now: late }), 'accepted');
});

t.test('the size limit of stored answers accounts for the answer that a save replaces', async (t) => {
  t.equal(verdict({ attempt: { answerBytes: MAX_ANSWER_BYTES - 18 } }), 'accepted');
  t.equal(verdict({ attempt: { answerBytes: MAX_ANSWER_BYTES - 17 } }), 'ATTEMPT_TOO_LARGE');
  t.equal(verdict({ attempt: { answerBytes: MAX_ANSWER_BYTES, answers: { q0: stored } } }), 'accepted');
});
