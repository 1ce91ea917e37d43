import t from 'tap';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import type { Attempt } from './attempt.ts';
import { MAX_ANSWER_BYTES } from './limits.ts';
import { questionIdAt } from './question.ts';
import { fitSave, whySaveRefused } from './save-rules.ts';
import type { Viewer } from './visibility.ts';

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
