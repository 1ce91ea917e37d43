// Checked by the compiler alone: each line below a directive must not compile, and every other line must.

import { type Client, ExamhallError, type StartRequest } from '../../../clients/typescript/src/index.ts';

declare const client: Client;
declare const start: StartRequest;
const student = client.with({ as: { id: 'student-1', role: 'STUDENT' } });
const gateway = student.with({ service: { name: 'api-gateway', token: 'a token' } });
const headers = { 'x-exam-runtime-decision-source': 'exam-service' } as const;

export async function requiresCredentials(): Promise<void> {
  await gateway.startAttempt({ examId: 'exam-1', headers, body: start });
  await student.readAttempt({ attemptId: 'attempt-1' });
  await student.listNotifications();
  await client.createNotification({ service, body: notice });
  // @ts-expect-error: the client knows no identity, and the call names none
  await client.readAttempt({ attemptId: 'attempt-1' });
  // @ts-expect-error: a start needs the service of the gateway too
  await student.startAttempt({ examId: 'exam-1', headers, body: start });
  // @ts-expect-error: it needs an ADMIN or a service
  await client.createNotification({ body: notice });
  // @ts-expect-error: the caller is missing
  client.streams.inbox();
  // @ts-expect-error: a role that does not exist
  client.with({ as: { id: 'student-1', role: 'student' } });
  // @ts-expect-error: an identity without a role must state so by null
  client.with({ as: { id: 'student-1' } });
}

const service = { name: 'exam-service', token: 'a token' };
const notice = { userId: 'student-1', type: 'EXAM_ASSIGNED', title: 'New exam', content: '' };

export async function requiresInput(): Promise<void> {
  // @ts-expect-error: the header is missing
  await gateway.startAttempt({ examId: 'exam-1', body: start });
  // @ts-expect-error: the body is missing
  await gateway.startAttempt({ examId: 'exam-1', headers });
  // @ts-expect-error: the id is missing
  await gateway.startAttempt({ headers, body: start });
  // @ts-expect-error: a field of the body is missing
  await gateway.startAttempt({ examId: 'exam-1', headers, body: { exam: start.exam, access: start.access } });
  // @ts-expect-error: the field has another name
  await student.saveAnswer({ attemptId: 'attempt-1', body: { question: 'q1', textAnswer: '0.25' } });
  // @ts-expect-error: the field has another type
  await student.saveAnswer({ attemptId: 'attempt-1', body: { questionId: 'q1', textAnswer: 0.25 } });
  // @ts-expect-error: the query has no such name
  await student.listNotifications({ query: { pages: 2 } });
  // @ts-expect-error: the event has no such type
  await student.postEvent({ attemptId: 'attempt-1', body: { type: 'BLINK' } });
  // @ts-expect-error: the operation has no key, so that a repeat would make another notification
  await client.createNotification({ service, body: notice, idempotencyKey: 'key-1' });
  // @ts-expect-error: there is no such operation
  await student.gradeAttempt({ attemptId: 'attempt-1' });
}

export async function requiresNarrowing(): Promise<number | null> {
  const outcome = await student.submitAttempt({ attemptId: 'attempt-1' });
  // @ts-expect-error: the outcome has no score before its 202 is excluded
  if (outcome.totalScore === 10) return 10;
  const grade = await gateway.handOffGrade({ attemptId: 'attempt-1', body: handoff });
  if (grade.done) return grade.data.attempt.totalScore;
  if (!outcome.done) return null;
  const score: number | null = outcome.data.totalScore;
  const bulk = await client.replayDeadLetters({ token: 'ops', body: { ids: ['1'], reason: 'mended' } });
  // @ts-expect-error: the outcome is a result for ids or a bulk act
  if (bulk.done && bulk.data.endedAt === null) return null;
  return score;
}

declare const handoff: Parameters<typeof gateway.handOffGrade>[0]['body'];

export function comparesCodes(error: unknown): string {
  if (!(error instanceof ExamhallError)) return 'no error of examhall';
  if (error.code === 'ANSWER_VERSION_CONFLICT' || error.code === 'NO_REPLY') return 'a code';
  // @ts-expect-error: there is no such code
  if (error.code === 'VERSION_CONFLICT') return 'a wrong code';
  return error.details.map(({ path }) => path).join();
}

export async function narrowsEvents(): Promise<number | string> {
  for await (const event of student.streams.inbox()) {
    if (event.event === 'counts') return event.data.unreadCount;
    if (event.event === 'notification') return event.data.notification.title;
    // @ts-expect-error: a heartbeat has no count
    if (event.event === 'heartbeat') return event.data.unreadCount;
    // @ts-expect-error: there is no such event
    if (event.event === 'message') return 0;
  }
  return 0;
}
