import t from 'tap';
import { attemptEvent, metadataFault, submitEventType, submitMetadata, visibleMetadata } from './events.ts';

const at = new Date('2026-05-04T03:00:00.000Z');

t.test('event metadata keeps any key', async (t) => {
  const metadata = { $set: 1, 'a.b': { $ne: null } };
  t.strictSame(visibleMetadata(attemptEvent(2, 'QUESTION_VIEW', metadata, at), false), metadata);
});

t.test('metadata fields that reveal a grade are null while grades are hidden', async (t) => {
  const source = 'STUDENT';
  const submit = attemptEvent(2, 'SUBMIT', submitMetadata({ source, totalScore: 7.7731, remainingSeconds: 5 }), at);
  t.strictSame(visibleMetadata(submit, false), { source, totalScore: null, remainingSeconds: 5 });
  t.strictSame(visibleMetadata(submit, true), { source, totalScore: 7.7731, remainingSeconds: 5 });
  const handoff = {
    sourceEventId: 'e',
    questionId: 'q',
    score: 1,
    maxScore: 2,
    feedback: 'f',
    criteria: [{ score: 1 }],
  };
  t.strictSame(visibleMetadata(attemptEvent(3, 'ESSAY_GRADE_HANDOFF', handoff, at), false), {
    ...handoff,
    score: null,
    feedback: null,
    criteria: null,
  });
  t.strictSame(
    visibleMetadata(attemptEvent(4, 'TIMEOUT', { tab: 1 }, at), false),
    { tab: 1 },
    'a client added nothing',
  );
});

t.test('a TIMEOUT event contains the metadata of the client as `client`', async (t) => {
  const submit = { source: 'TIMEOUT', totalScore: 1, remainingSeconds: 0 } as const;
  t.strictSame(submitMetadata({ ...submit, client: '{"$tab":{"a.b":1}}' }), {
    ...submit,
    client: { $tab: { 'a.b': 1 } },
  });
  t.notOk('client' in submitMetadata(submit));
});

t.test('a submit by timeout is recorded as a TIMEOUT event', async (t) => {
  t.equal(submitEventType('STUDENT'), 'SUBMIT');
  t.equal(submitEventType('TIMEOUT'), 'TIMEOUT');
});

t.test('metadata of at most 8 KiB as JSON is accepted', async (t) => {
  t.equal(metadataFault({ x: 'a'.repeat(8 * 1024 - 8) }), null);
  const fault = metadataFault({ x: 'a'.repeat(8 * 1024 - 7) });
  t.match(fault, { rejected: 'VALIDATION_FAILED', details: [{ path: '/metadata' }] });
});
