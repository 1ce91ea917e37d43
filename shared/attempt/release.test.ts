import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import type { AttemptStatus, ExamSnapshot } from './attempt.ts';
import { applyRelease, isBoundBy, readRelease, releaseEffect, releaseFaults } from './release.ts';

const source = { sourceService: 'exam-service', sourceEventId: 'event-1', type: 'exam.results_released.v1' };
const flat = { ...source, examId: 'exam-1', organizationId: 'org-1', releasedAt: '2026-05-04T10:00:00+07:00' };
const analytics = {
  ...source,
  entity: 'Exam',
  entityId: 'exam-1',
  organizationId: 'org-1',
  occurredAt: '2026-05-04T03:00:00Z',
  payload: { schemaVersion: 1, status: 'PUBLISHED', examId: 'exam-1' },
};
const release = {
  examId: 'exam-1',
  organizationId: 'org-1',
  releasedAt: new Date('2026-05-04T03:00:00.000Z'),
  sourceEventId: 'event-1',
};

function faults(body: object): string[] {
  const read = readRelease(body);
  if (!isRejection(read)) return [];
  t.equal(read.rejected, 'VALIDATION_FAILED');
  return (read.details ?? []).map(({ path }) => path);
}

t.test('both styles of a release yield the same release, and other fields are dropped', async (t) => {
  t.strictSame(readRelease({ ...flat, extra: 1 }), release);
  t.strictSame(readRelease(analytics), release);
  t.strictSame(readRelease({ ...flat, organizationId: null }), { ...release, organizationId: null });
  t.strictSame(readRelease({ ...analytics, payload: null }), release);
  const later = { ...analytics.payload, releasedAt: '2026-05-04T04:00:00Z' };
  t.match(readRelease({ ...analytics, payload: later }), { releasedAt: new Date('2026-05-04T04:00:00.000Z') });
  t.match(readRelease({ ...analytics, releasedAt: '2026-05-04T05:00:00Z', payload: later }), {
    releasedAt: new Date('2026-05-04T05:00:00.000Z'),
  });
});

t.test('a release whose ids disagree is refused', async (t) => {
  t.strictSame(faults({ ...flat, entity: 'Exam', entityId: 'exam-2' }), ['/entityId']);
  t.strictSame(faults({ ...analytics, payload: { schemaVersion: 1, examId: 'exam-2' } }), ['/payload/examId']);
  t.strictSame(faults({ ...analytics, payload: { schemaVersion: 1, organizationId: 'org-2' } }), [
    '/payload/organizationId',
  ]);
});

t.test('a release of another version, type or sender, or of a draft, is refused', async (t) => {
  for (const schemaVersion of [2, '1', undefined, null]) {
    t.strictSame(faults({ ...analytics, payload: { schemaVersion } }), ['/payload/schemaVersion']);
  }
  t.strictSame(faults({ ...analytics, payload: { schemaVersion: 1, status: 'DRAFT' } }), ['/payload/status']);
  t.strictSame(faults({ ...flat, sourceService: 'attempt-service' }), ['/sourceService']);
  t.strictSame(faults({ ...flat, type: 'exam.results_released.v2' }), ['/type']);
  t.strictSame(faults({ ...analytics, entity: 'Course' }), ['/entity']);
});

t.test('reading a release returns every fault at once', async (t) => {
  t.strictSame(faults({}), ['/sourceService', '/type', '/sourceEventId', '/examId', '/releasedAt']);
  t.strictSame(faults({ ...flat, examId: 7, releasedAt: '2026-02-30T00:00:00Z', payload: [] }), [
    '/payload',
    '/examId',
    '/releasedAt',
  ]);
});

const stored = { ...release, number: 3 };

t.test('a release binds attempts of its exam and organization that started before it was stored', async (t) => {
  const binds = (attempt: Parameters<typeof sampleAttempt>[0], by = {}) =>
    isBoundBy(sampleAttempt(attempt), { ...stored, ...by });
  t.ok(binds({}));
  t.ok(binds({ organizationId: 'org-2' }, { organizationId: null }));
  t.notOk(binds({ organizationId: 'org-2' }));
  t.notOk(binds({ organizationId: null }));
  t.notOk(binds({ examId: 'exam-2' }));
  t.ok(binds({ releasesSeen: 2 }));
  t.notOk(binds({ releasesSeen: 3 }), 'an attempt whose start has read this release');
  t.notOk(binds({ releasesSeen: 4 }));
  t.ok(
    isBoundBy(sampleAttempt({ releasesSeen: 9 }), release as typeof stored),
    'a command of an older process binds all',
  );
  const { releasesSeen: _, ...old } = sampleAttempt();
  t.ok(isBoundBy(old, { ...stored, number: 1 }), 'an attempt of an older process has seen none');
});

t.test('an attempt without a release time takes the time of its release, once', async (t) => {
  const attempt = sampleAttempt();
  t.equal(applyRelease(attempt, null), attempt);
  const taken = applyRelease(attempt, stored);
  t.match(taken, { exam: { resultsReleasedAt: stored.releasedAt }, releaseEventId: 'event-1' });
  const later = { ...stored, number: 4, sourceEventId: 'event-2', releasedAt: new Date(0) };
  t.equal(applyRelease(taken, later), taken);
});

t.test('a release sets the time once and notifies only for a graded attempt with a hidden result', async (t) => {
  const now = new Date('2026-05-04T06:00:00.000Z');
  const effect = (status: AttemptStatus, exam: Partial<ExamSnapshot>) => {
    const attempt = sampleAttempt({ status, exam: { ...sampleAttempt().exam, ...exam } });
    const { notifies, setsTime } = releaseEffect(attempt, now);
    return `${setsTime ? 'sets' : 'leaves'}${notifies ? ' and notifies' : ''}`;
  };
  const future = new Date(now.getTime() + 1);
  t.equal(effect('GRADED', { showResultMode: 'MANUAL' }), 'sets and notifies');
  t.equal(effect('GRADED', { showResultMode: 'AFTER_CLOSE', closeTime: future }), 'sets and notifies');
  t.equal(effect('GRADED', { showResultMode: 'AFTER_CLOSE', closeTime: null }), 'sets and notifies');
  t.equal(effect('GRADED', { showResultMode: 'AFTER_CLOSE', closeTime: now }), 'sets', 'already visible');
  t.equal(effect('GRADED', { showResultMode: 'IMMEDIATE' }), 'sets');
  t.equal(effect('SUBMITTED', { showResultMode: 'MANUAL' }), 'sets', 'the grading queues the rows');
  t.equal(effect('IN_PROGRESS', { showResultMode: 'MANUAL' }), 'sets');
  t.equal(effect('GRADED', { showResultMode: 'MANUAL', resultsReleasedAt: future }), 'leaves');
});

t.test('a release that failed its schema also gets the faults of its other fields', async (t) => {
  const body = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: 'e-1',
    examId: 'a',
    entityId: 'b',
    entity: 'Exam',
    releasedAt: 'tomorrow',
  };
  const known = [{ path: '/releasedAt', message: 'must be a timestamp' }];
  t.strictSame(
    releaseFaults(body, known).map(({ path }) => path),
    ['/entityId'],
  );
  t.strictSame(releaseFaults({ ...body, payload: 5 }, [...known, { path: '/payload', message: '' }]).length, 1);
  for (const other of [null, 5, []]) t.strictSame(releaseFaults(other, known), []);
});
