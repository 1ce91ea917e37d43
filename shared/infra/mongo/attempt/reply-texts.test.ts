import { BSON } from 'mongodb';
import t from 'tap';
import type { Attempt, AttemptEvent } from '#shared/attempt/attempt.ts';
import { attemptEvent } from '#shared/attempt/events.ts';
import { SAVE_REPLY_EVENTS } from '#shared/attempt/limits.ts';
import { redactAttempt } from '#shared/attempt/redact.ts';
import type { Viewer } from '#shared/attempt/visibility.ts';
import { sampleAnswer, sampleAttempt, sampleOptions, samplePaper } from '#testing/stored/sample-attempt.ts';
import { openReplyTexts, type ReplyText } from './reply-texts.ts';
import { StoredAttempt } from './stored-attempt.ts';

const STUDENT: Viewer = { role: 'STUDENT', id: 'student-1' };
const now = new Date('2026-05-04T03:20:00.000Z');
const LIMITS = { now, eventLimit: SAVE_REPLY_EVENTS };

const paper = {
  ...samplePaper(
    { contentText: 'Cho hàm số y = x³ “…” 😀 \u2028', options: sampleOptions('a', 'b', 'c', 'd') },
    { type: 'TRUE_FALSE_GROUP', id: 'own-id', answerKey: { statements: [{ statementId: 'a', value: true }] } },
    { type: 'ESSAY', options: [], scoringRule: { mode: 'ESSAY' }, answerKey: {} },
  ),
  orderIndexes: [1, 5, 9],
};

function sitting(overrides: Partial<Attempt> = {}): Attempt {
  return sampleAttempt({
    order: [2, 0, 1],
    optionOrders: [[3, 1, 0, 2], [], []],
    studentInfo: '{"name":"An","$key":1}',
    courseContext: {
      courseId: 'course-1',
      courseQuizReferenceId: 'quiz-1',
      lessonId: 'lesson-1',
      studentId: 'student-1',
      organizationId: 'org-1',
      validatedBy: 'course-service',
      validatedAt: now,
    },
    answers: {
      q1: sampleAnswer({ statements: [{ statementId: 'a', value: null }] }),
      q0: sampleAnswer({ selected: ['a', 'b'] }),
    },
    ...overrides,
  });
}

const eventsTo = (last: number, from = 1): AttemptEvent[] =>
  Array.from({ length: last - from + 1 }, (_, index) =>
    attemptEvent(from + index, 'QUESTION_VIEW', { n: from + index, 'ấ.$': '"' }, now),
  );

const storedOf = (attempt: Attempt) => new StoredAttempt(Buffer.from(BSON.serialize(attempt)));
const join = (parts: ReturnType<ReplyText['ofStored']>) =>
  parts === null ? null : Buffer.concat(parts.map((part) => Buffer.from(part))).toString();
const plain = (attempt: Attempt) =>
  JSON.stringify(redactAttempt({ attempt, paper, events: attempt.events.slice(-SAVE_REPLY_EVENTS) }, STUDENT, now));

t.test('a reply made of cached parts has the same bytes as one that is serialised as a whole', async (t) => {
  const first = sitting();
  const texts = await openReplyTexts(1 << 20).add(first, paper);
  const states: [string, Attempt][] = [
    ['first save', first],
    ['again', first],
    ['another answer', sitting({ answers: { ...first.answers, q2: sampleAnswer({ text: 'Sông Hương\n"\\' }) } })],
    ['a new version', sitting({ answers: { q0: sampleAnswer({ selected: [], serverVersion: 2, clientVersion: 1 }) } })],
    [
      'the same version with another content',
      sitting({ answers: { q0: sampleAnswer({ selected: ['c'], serverVersion: 2 }) } }),
    ],
    ['no answer', sitting({ answers: {} })],
    ['some events', sitting({ events: eventsTo(15), eventSeq: 15 })],
    ['more events', sitting({ events: eventsTo(39), eventSeq: 39 })],
    ['a rolled tail', sitting({ events: eventsTo(41, 21), eventSeq: 41 })],
    ['many events later', sitting({ events: eventsTo(300, 270), eventSeq: 300 })],
    ['an earlier state', sitting({ events: eventsTo(290, 270), eventSeq: 290 })],
    [
      'another event of the same number',
      sitting({ events: eventsTo(290, 270).with(-1, attemptEvent(290, 'TAB_HIDDEN', {}, now)), eventSeq: 290 }),
    ],
    ['a released exam', sitting({ exam: { ...first.exam, resultsReleasedAt: now } })],
    ['nothing optional', sitting({ studentInfo: null, courseContext: null, deadlineAt: null })],
  ];
  for (const [name, attempt] of states) {
    t.equal(join(texts.ofStored(storedOf(attempt), STUDENT, LIMITS)), plain(attempt), name);
    t.equal(join(texts.ofWhole(attempt, attempt.events.slice(-SAVE_REPLY_EVENTS), STUDENT, now)), plain(attempt), name);
  }
});

t.test('a reply about the whole attempt has the same bytes in every status, by every rule of visibility', async (t) => {
  const event = attemptEvent(2, 'SUBMIT', { source: 'STUDENT', totalScore: 7.7731, remainingSeconds: 3 }, now);
  const ended = (changes: Partial<Attempt>) =>
    sitting({
      answers: { q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 7.7731 }) },
      ...{ totalScore: 7.7731, correctCount: 1, wrongCount: 2, pendingManualCount: 1, submittedAt: now },
      ...{ submittedBy: 'STUDENT', durationSeconds: 5, events: [...eventsTo(1), event], eventSeq: 2 },
      ...changes,
    });
  const texts = await openReplyTexts(1 << 20).add(sitting(), paper);
  const seen = new Set<boolean>();
  for (const status of ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const)
    for (const showResultMode of ['IMMEDIATE', 'AFTER_CLOSE', 'MANUAL'] as const)
      for (const closeTime of [null, new Date(now.getTime() - 1), new Date(now.getTime() + 1)])
        for (const resultsReleasedAt of [null, now, new Date(now.getTime() + 1)])
          for (const viewer of [STUDENT, { role: 'SERVICE', id: '' } satisfies Viewer]) {
            const attempt = ended({
              status,
              exam: { ...sitting().exam, showResultMode, closeTime, resultsReleasedAt },
            });
            const asWhole = JSON.stringify(redactAttempt({ attempt, paper, events: attempt.events }, viewer, now));
            t.equal(join(texts.ofWhole(attempt, attempt.events, viewer, now)), asWhole);
            seen.add(asWhole.includes('7.7731'));
          }
  t.equal(seen.size, 2, 'some of them show the grades');
});

t.test('a reply shows neither the answer key nor a score nor the authored order', async (t) => {
  const attempt = sitting({
    answers: { q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 7.7731 }) },
    totalScore: 7.7731,
  });
  const text =
    join((await openReplyTexts(1 << 20).add(attempt, paper)).ofStored(storedOf(attempt), STUDENT, LIMITS)) ?? '';
  t.notMatch(text, /answerKey|correctOptionIds|7\.7731|"isCorrect":true/);
  const [, question] = JSON.parse(text).questions;
  t.strictSame(
    question.options.map(({ id }: { id: string }) => id),
    ['d', 'b', 'a', 'c'],
  );
});

t.test('no cached part is used for an attempt that has ended or whose student was erased', async (t) => {
  const attempt = sitting();
  const texts = await openReplyTexts(1 << 20).add(attempt, paper);
  t.ok(texts.ofStored(storedOf(attempt), STUDENT, LIMITS));
  for (const change of [{ status: 'SUBMITTED' }, { status: 'GRADED' }, { erasedAt: now }] as const) {
    t.equal(texts.ofStored(storedOf(sitting(change)), STUDENT, LIMITS), null, JSON.stringify(change));
  }
});

t.test('a reply that needs rows, or is very long, is made from the whole attempt', async (t) => {
  const texts = await openReplyTexts(1 << 20).add(sitting(), paper);
  const stub = { ...attemptEvent(2, 'QUESTION_VIEW', {}, now), inRow: true } as const;
  const needing: [string, Partial<Attempt>][] = [
    ['a long text', { answers: { q2: { ...sampleAnswer({}), textRef: true } } }],
    ['long metadata', { events: [...eventsTo(1), stub], eventSeq: 2 }],
    ['older events', { events: eventsTo(41, 40), eventSeq: 41 }],
    ['size', { answers: { q2: sampleAnswer({ text: 'x'.repeat(30_000) }) } }],
  ];
  for (const [name, change] of needing) t.equal(texts.ofStored(storedOf(sitting(change)), STUDENT, LIMITS), null, name);
});

t.test('the cache holds as many attempts as fit, the most recently used ones', async (t) => {
  const { size: one } = await openReplyTexts(1 << 20).add(sitting(), paper);
  const texts = openReplyTexts(2 * one + 1);
  for (const _id of ['a', 'b', 'c']) {
    await texts.add(sitting({ _id }), paper);
    texts.find('a');
  }
  t.strictSame(
    ['a', 'b', 'c'].map((id) => texts.find(id) !== undefined),
    [true, false, true],
  );
});
