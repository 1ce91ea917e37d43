import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import type { GenerationRequest } from '#shared/generated/classifier.ts';
import { paidDoor, preview } from '#testing/doors/paid-door.ts';
import { generationCall } from '#testing/doors/preview-door.ts';
import { previewGeneration } from './previews.ts';

t.test('fewer questions than wanted cost less; uncounted tokens cost the estimate', async (t) => {
  const { door, models } = await paidDoor(t);
  const written = { content: '?', explanation: '!', options: ['1', '2', '3', '4'], correctIndexes: [0] };
  models.script = async () => ({
    json: { questions: [written] },
    usage: { inputTokens: 5, outputTokens: null },
  });
  t.match(await preview(door, { count: 4 }), { settlement: { credits: 3, tokens: 4_000 }, questions: [{}] });
});

t.test('an answer without questions is invalid and costs nothing', async (t) => {
  const { door, owners, models } = await paidDoor(t);
  models.script = async () => ({ json: { questions: [] } });
  t.match(await previewGeneration(door, generationCall()), { rejected: 'AI_PROVIDER_INVALID_RESPONSE' });
  t.equal(owners.ledger.consumed.size, 0);
});

t.test('similar questions follow the references that the bank returns for this caller', async (t) => {
  const { door, owners, models } = await paidDoor(t);
  owners.questions.set('q-1', { id: 'q-1', content: 'Một', options: [], answerKey: { secret: 1 } });
  const similar: Partial<GenerationRequest> = { mode: 'similar', referenceQuestionIds: ['q-1'] };
  t.match(await preview(door, similar), { mode: 'similar' });
  t.strictSame(
    models.asked.map(({ task }) => (task.data as { references: unknown }).references),
    [[{ id: 'q-1', content: 'Một', options: [] }]],
  );
  const asked = owners.calls.find(({ path }) => path === '/v1/questions/ai-classify/context');
  t.match(asked, {
    body: { questionIds: ['q-1'] },
    headers: { 'x-organization-id': 'org-1', 'x-actor-id': 'teacher-1' },
  });

  const missing = generationCall({ ...similar, referenceQuestionIds: ['q-1', 'q-2'] });
  for (const settles of [true, false]) {
    t.match(await previewGeneration({ ...door, settles }, missing), {
      rejected: 'VALIDATION_FAILED',
      details: [{ path: '/referenceQuestionIds' }],
    });
  }
  owners.fault = ({ path }) => (path.endsWith('/context') ? 'away' : undefined);
  const refused = { rejected: 'AI_OWNER_UNAVAILABLE' };
  t.match(await previewGeneration({ ...door, settles: false }, generationCall(similar)), refused);
  const bankless = { ...door, settles: false, neighbours: { ...door.neighbours, questionBank: null } };
  t.match(await previewGeneration(bankless, generationCall(similar)), refused);
  t.match(await preview(door, similar), { mode: 'similar' }, 'what is paid for needs no bank');
});

t.test('a free preview stores nothing and calls no owner', async (t) => {
  const { mongo, door, owners } = await paidDoor(t, { settles: false });
  const [first, second] = [await preview(door), await preview(door)];
  t.equal(first.chargePolicy, 'preview_only_no_consume');
  t.notOk('settlement' in first);
  t.not(first.previewId, second.previewId);
  t.strictSame(first.questions, second.questions, 'the mock is deterministic');
  t.equal(owners.calls.length, 0);
  t.equal(await generations(mongo).countDocuments({}), 0);
});
