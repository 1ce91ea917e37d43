import t from 'tap';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deleteSubscription, subscriptions } from '#infra/mongo/operations/subscriptions.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { openEventsOut } from '#testing/actors/events-out.ts';
import { postMessage, postPublish } from '#testing/stored/stored-events.ts';

const { mongo, neighbours, act, run, messages, stored, callsOf, only } = await openEventsOut(t);

t.test('a message about an erased student is dropped and keeps no id', async (t) => {
  const subscription = await only();
  const message = await postMessage(mongo, subscription._id);
  const { studentId = '' } = message.body;
  t.equal((await erasePerson(mongo, studentId, act())).kind, 'erased');
  t.notMatch(JSON.stringify(await stored(message)), studentId);
  // Written after the erasure, under the old student.
  await mailboxOf(mongo, 'upkeep:webhooks').updateOne({ _id: message._id }, { $set: { 'body.studentId': studentId } });
  t.equal(await run('upkeep', message), 'done');
  t.match(await stored(message), { result: { dropped: 'ERASED' } });
  t.notMatch(JSON.stringify(await stored(message)), studentId);
  t.strictSame(callsOf(message.body.eventId), []);
  const event = await postPublish(mongo);
  await erasePerson(mongo, (event.body as { studentId: string }).studentId, act());
  t.equal(await run('upkeep', event), 'done');
  t.strictSame(await messages(event._id), []);
});

t.test('a message that was written while its student was erased leaves no id, however it ends', async (t) => {
  const ends = [
    { name: 'served', end: 'done' },
    { name: 'deleted', end: 'done' },
    { name: 'disabled', end: 'dead' },
    { name: 'out of attempts', end: 'dead' },
  ];
  for (const { name, end } of ends) {
    const subscription = await only(name === 'disabled' ? { state: 'DISABLED' } : {});
    const message = await postMessage(mongo, subscription._id, { maxAttempts: 1 });
    const { studentId = '' } = message.body;
    if (name === 'deleted') await deleteSubscription(mongo, subscription._id, act());
    if (name === 'out of attempts') neighbours.answer = () => ({ status: 503 });
    // Nothing is erased here: an end that finds no erased attempt must forget the student as well.
    t.equal(await run('upkeep', message), end, name);
    neighbours.answer = null;
    t.match(await stored(message), { body: { attemptId: message.subject } }, name);
    t.notMatch(JSON.stringify(await stored(message)), studentId, name);
  }
});

t.test('a dead message is replayed with its student, and dropped once the student is erased', async (t) => {
  for (const isErased of [false, true]) {
    const subscription = await only();
    const message = await postMessage(mongo, subscription._id, { maxAttempts: 1 });
    const { studentId = '', eventId } = message.body;
    neighbours.answer = () => ({ status: 503 });
    t.equal(await run('upkeep', message), 'dead');
    neighbours.answer = null;
    await subscriptions(mongo).updateOne({ _id: subscription._id }, { $set: { pausedUntil: null } });
    const letter = await stored(message);
    if (letter === null) throw new Error('the letter is gone');
    t.ok(await replayDead(mongo, letter, act()));
    if (isErased) await erasePerson(mongo, studentId, act());
    t.equal(await run('upkeep', message), 'done');
    if (isErased) t.match(await stored(message), { result: { dropped: 'ERASED' } });
    else t.match(callsOf(eventId)[1]?.body, { data: { studentId } });
  }
});
