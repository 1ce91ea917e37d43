import t from 'tap';
import type { Cause } from '#shared/kernel/cause.ts';
import { CALLER, CHAIN, openHall, refuseFirstDeliveries, submit, TRACE } from '#testing/doors/traced-hall.ts';

t.test('the trail needs no SDK: commands and neighbours get what the caller sent', async (t) => {
  const hall = await openHall(t);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const { traceparent, tracestate } = CALLER;
  const cause: Cause = { requestId: 'request-7', traceparent, tracestate };
  const commands = await hall.commands();
  t.equal(commands.length, 6);
  for (const command of commands) t.strictSame(command.cause, cause, command.queue);
  t.ok(hall.neighbours.calls.length > 3, 'profile, analytics and the webhook receiver');
  for (const { headers, path } of hall.neighbours.calls) t.match(headers, CALLER, path);
});

t.test('the line of a request, and one line for each command that it causes, have its ids', async (t) => {
  const hall = await openHall(t);
  const attemptId = await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const ids = { requestId: 'request-7', traceId: TRACE };
  const commands = await hall.commands();
  const grading = commands.find(({ queue }) => queue === 'grading');
  const [request] = hall.lines().filter(({ msg }) => msg === 'request');
  t.match(request, { ...ids, attemptId, commandId: grading?._id, status: 202 });
  const settled = hall.lines().filter(({ msg }) => msg === 'command settled');
  t.equal(settled.length, commands.length);
  for (const { _id: commandId, queue } of commands) {
    const [line, ...more] = settled.filter((each) => each.commandId === commandId);
    t.match(line, { ...ids, queue, ending: 'done', attempt: 1, level: 30, waitMs: Number, runMs: Number });
    t.strictSame(more, []);
  }
});

t.test('each line about a retry has the ids of its request', async (t) => {
  const hall = await openHall(t);
  refuseFirstDeliveries(hall);
  await submit(t, hall, CALLER);
  await hall.run(...CHAIN);
  const retries = hall.lines().filter(({ msg }) => msg === 'command failed; retry scheduled');
  t.equal(retries.length, 2);
  for (const line of retries) {
    t.match(line, { queue: 'delivery:webhook', commandId: String, requestId: 'request-7', traceId: TRACE, attempt: 1 });
  }
});

t.test('a malformed traceparent is ignored, and the request id is followed without it', async (t) => {
  const hall = await openHall(t);
  await submit(t, hall, { 'x-request-id': 'request-8', traceparent: `00-${'0'.repeat(32)}-00f067aa0ba902b7-01` });
  await hall.run(...CHAIN);
  for (const { cause, queue } of await hall.commands()) t.strictSame(cause, { requestId: 'request-8' }, queue);
  for (const { headers } of hall.neighbours.calls) t.notOk('traceparent' in headers);
});
