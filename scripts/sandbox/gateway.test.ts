import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { answerJson, openReceiver } from '#scripts/http/local-server.ts';
import { asStudent, countRequests, openGateway, openLatencies } from './gateway.ts';

const STUDENT = asStudent({ id: 'student-1' });
const SAVE = { attemptId: 'a', as: STUDENT, body: { questionId: 'q', answer: { textAnswer: '1' } } };

t.test('the gateway loses a reply on purpose, and the client sends the request again', async (t) => {
  let served = 0;
  const url = await openReceiver(t, async (_call, response) => {
    served += 1;
    // Longer than the gateway waits before it hangs up.
    if (served === 1) await delay(200);
    answerJson(response, { status: 200, body: { success: true, data: { answer: { serverVersion: served } } } });
  });
  const latencies = openLatencies();
  const gateway = openGateway(url, {}, latencies);
  const requests = countRequests();
  await gateway.client('save', { losesReply: true }).saveAnswer({ ...SAVE, observe: requests.observe });
  t.strictSame([requests.count(), requests.lastStatus(), gateway.repeated()], [2, 200, 1]);
  t.strictSame(
    latencies.sorted().map(([name, sorted]) => [name, sorted.length]),
    [['save', 1]],
    'a lost reply has no duration',
  );
  await gateway.client('save').saveAnswer(SAVE);
  t.equal(gateway.repeated(), 1);
});
