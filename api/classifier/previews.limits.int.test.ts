import t from 'tap';
import type { Call } from '#api/route.ts';
import { previewLeases } from '#infra/mongo/classifier/collections.ts';
import type { ExplanationRequest } from '#shared/generated/classifier.ts';
import { captureLog } from '#testing/captured-log.ts';
import { paidDoor, preview } from '#testing/doors/paid-door.ts';
import { generationCall, type ScriptedModels, scriptedModels } from '#testing/doors/preview-door.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { gate, until } from '#testing/until.ts';
import { inFlight } from './in-flight.ts';
import { previewExplanation, previewGeneration } from './previews.ts';

const REFUSED = { rejected: 'RATE_LIMITED', retryAfter: 5 };

function explanationCall(actorId: string): Call<ExplanationRequest> {
  const { signal } = new AbortController();
  const identity = { actor: { id: actorId, role: 'TEACHER' }, organizationId: 'org-1' };
  const body = { content: '1 + 1 = ?' };
  return { requestId: 'r', params: {}, query: {}, body, headers: {}, identity, peer: '', signal, stop: signal };
}

/** Returns a front door's explanation of a question, in flight until the model answers. */
function openDoor(mongo: TestMongo, models: ScriptedModels) {
  const deps = { mongo, models, now: Date.now, log: captureLog() };
  return (actorId: string) => {
    const call = explanationCall(actorId);
    return inFlight(deps, actorId, () => previewExplanation(deps as never, call));
  };
}

t.test('an actor has at most four previews in flight at all front doors together', async (t) => {
  const mongo = await openTestMongo(t);
  const models = scriptedModels();
  const answer = gate();
  models.script = () => answer.opened.then(() => undefined);
  const doors = [openDoor(mongo, models), openDoor(mongo, models)];
  const sent = Array.from({ length: 12 }, (_, n) => doors[n % 2]?.('an'));
  const refused: unknown[] = [];
  for (const reply of sent) void reply?.then((told) => 'rejected' in told && refused.push(told));
  await until('eight are refused while four are in flight', () => refused.length === 8 && models.asked.length === 4);
  t.match(refused[0], REFUSED);
  const other = doors[0]?.('binh');
  await until('another actor is free', () => models.asked.length === 5);
  answer.open();
  const replies = await Promise.all(sent);
  t.equal(replies.filter((reply) => reply !== undefined && !('rejected' in reply)).length, 4);
  t.match(await other, { status: 200 });
  t.match(await doors[1]?.('an'), { status: 200 }, 'an answered preview is no longer in flight');
  t.strictSame((await previewLeases(mongo).findOne({ _id: 'an' }))?.leases, []);
});

t.test('a settled generation, and one that joins an equal one, take no place among the four', async (t) => {
  const { door, models } = await paidDoor(t);
  const settled = await preview(door, { topic: 'settled' });
  const answer = gate();
  models.script = () => answer.opened.then(() => undefined);
  const first = ['a', 'b', 'c', 'd'].map((topic) => preview(door, { topic }));
  await until('four are in flight', () => models.asked.length === 5);
  t.match(await previewGeneration(door, generationCall({ topic: 'e' })), REFUSED);
  t.equal((await preview(door, { topic: 'settled' })).previewId, settled.previewId);

  const joined = Array.from({ length: 8 }, () => preview(door, { topic: 'a' }));
  answer.open();
  const [leader] = await Promise.all(first);
  t.strictSame(new Set((await Promise.all(joined)).map(({ previewId }) => previewId)), new Set([leader?.previewId]));
  t.equal(models.asked.length, 5);
  t.ok(await preview(door, { topic: 'e' }), 'a refused one may be sent again');
});

t.test('a preview that fails is no longer in flight', async (t) => {
  const mongo = await openTestMongo(t);
  const models = scriptedModels();
  models.script = async () => {
    throw new Error('broken');
  };
  const door = openDoor(mongo, models);
  for (let n = 0; n < 6; n++) await t.rejects(door('chi'), /broken/);
  models.script = null;
  t.match(await door('chi'), { status: 200 });
});
