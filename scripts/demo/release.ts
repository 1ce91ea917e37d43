import type { ReleaseReply } from '#shared/generated/attempt.ts';
import { dataOf } from './gateway.ts';
import { ORGANIZATION } from './paper.ts';
import type { DemoDeps } from './sitting.ts';

const LATE_TRIES = 6;

/** Releases the results as the exam service does, then says it once more, which must change nothing. */
export async function releaseResults(deps: DemoDeps, attempts: number): Promise<void> {
  const event = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: `release-${deps.examId}`,
    organizationId: ORGANIZATION,
    examId: deps.examId,
    releasedAt: new Date().toISOString(),
  };
  const first = await send(deps, event);
  // Where the reply of the first call was lost, this one met a replay, which counts nothing.
  const isRight = first.updatedAttempts === attempts && first.queuedNotifications === 2 * attempts;
  if (!isRight && !first.wasRepeated) {
    deps.complain(`the release told ${first.updatedAttempts} attempts and ${first.queuedNotifications} notices`);
  }
  const again = await send(deps, event);
  if (again.updatedAttempts !== 0 || again.queuedNotifications !== 0) deps.complain('the release was made twice');
}

/** Until it is done: 202 says that the worker is late, and asking again waits for the same command. */
async function send(deps: DemoDeps, event: object) {
  for (let tried = 1; ; tried++) {
    const reply = await deps.gateway.send({
      name: 'release',
      method: 'POST',
      path: '/v1/events/exam-results-released',
      headers: { 'x-internal-service': 'exam-service', 'x-internal-token': deps.internalToken },
      body: event,
    });
    const counts = dataOf<ReleaseReply>('release', reply, 200, 202);
    if (reply.status === 200) return { ...counts, wasRepeated: tried > 1 || reply.sentTimes > 1 };
    if (tried === LATE_TRIES) throw new Error('the release is still not done');
  }
}
