import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { exchange, type HttpReply } from '#testing/clients/http-call.ts';
import { type Detail, type ExamPlan, release, type Student, sendHandoff, student } from '#testing/clients/sitting.ts';

/** Promises to clients, to be compared with what is stored at the end. Calls to a front door or to the gateway fill it. */
export interface Book {
  sittings: Sitting[];
  sessions: Session[];
  /** Source event ids of releases, by exam. */
  releases: Map<string, string>;
  jobs: { id: string; questions: number }[];
  /** Topics of paid generations; one request each, perhaps repeated. */
  topics: Set<string>;
  /** Users with exactly one notification of their own, which is also delivered over the webhook. */
  notified: string[];
  /** A fan-out of more recipients than one transaction holds. */
  recipients: string[];
}

export interface Sitting {
  who: Student;
  attemptId: string;
  plan: ExamPlan;
  /** The newest acknowledged text of each question. */
  answers: Map<string, string>;
  /** Number of acknowledged saves, which is the least number of SAVE_ANSWER events. */
  saves: number;
  /** Points of the essay's handoff; null without one. */
  essay: number | null;
}

/** A login whose refresh token is exchanged again and again. */
export interface Session {
  email: string;
  refreshToken: string;
  /** The token before the newest one. */
  used: string | null;
  rotations: number;
}

/** A call that a client could not finish. It ends the run: every later check would be wrong. */
export class CallFailed extends Error {}

const QUESTIONS = 4;
const PACE_MS = 100;
/** Longest wait for a worker that the caller sees as 202 or 503. */
const LATE_MS = 60_000;
const TEACHER = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
const ADMIN = { 'x-actor-id': 'admin-1', 'x-actor-role': 'ADMIN' };

export function newBook(): Book {
  return {
    sittings: [],
    sessions: [],
    releases: new Map(),
    jobs: [],
    topics: new Set(),
    notified: [],
    recipients: [],
  };
}

/** Returns the expected total of a sitting: a point for each right answer, and those of the essay. */
export function expectedScore({ answers, essay }: Sitting): number {
  const right = [...answers].filter(([questionId, text]) => `q${text}` === questionId).length;
  return right + (essay ?? 0);
}

/** Starts an attempt. With an essay its results wait for the release of the exam; otherwise they are visible at once. */
export async function start(book: Book, door: string, examId: string, { essay = false } = {}): Promise<Sitting> {
  const who = student();
  const plan: ExamPlan = { examId, questions: QUESTIONS, essay, showResultMode: essay ? 'MANUAL' : 'IMMEDIATE' };
  const reply = accepted('start', await who.start(door, plan), 201);
  const sitting: Sitting = { who, attemptId: reply.data.attempt.id, plan, answers: new Map(), saves: 0, essay: null };
  book.sittings.push(sitting);
  return sitting;
}

/** Saves one answer. `nth` counts the saves of a sitting: most are right, and each question is answered again later. */
export async function save(door: string, sitting: Sitting, nth: number): Promise<void> {
  const number = (nth % (sitting.plan.essay === true ? QUESTIONS + 1 : QUESTIONS)) + 1;
  const isEssay = number > QUESTIONS;
  const questionId = isEssay ? 'essay' : `q${number}`;
  const text = isEssay ? `Bài làm ${nth}` : nth % 3 === 0 ? '99' : String(number);
  accepted('save', await sitting.who.save(door, sitting.attemptId, { questionId, text }), 200);
  sitting.answers.set(questionId, text);
  sitting.saves += 1;
}

/** Submits until the attempt is graded; `isLate`: until the submit is acknowledged, while no worker grades. */
export async function submit(door: string, { who, attemptId }: Sitting, isLate = false): Promise<void> {
  const status = isLate ? 'SUBMITTED' : 'GRADED';
  await untilAnswered<Detail>(
    'submit',
    () => who.submit(door, attemptId),
    ({ data }) => data.status === status,
  );
}

/** Hands a grade of the essay off, twice under the same id. `isLate`: while no worker applies it. */
export async function handOff(door: string, sitting: Sitting, score: number, isLate = false): Promise<void> {
  const handoff = { sourceEventId: `handoff-${sitting.attemptId}`, questionId: 'essay', score };
  const call = () => sendHandoff(door, sitting.attemptId, handoff);
  sitting.essay = score;
  if (isLate) return void accepted('handoff', await call(), 202);
  await untilAnswered('handoff', call, ({ status }) => status === 200);
  accepted('a repeated handoff', await call(), 200);
}

/** Releases the results of an exam. `isLate`: while no worker releases them. */
export async function releaseExam(book: Book, door: string, examId: string, isLate = false): Promise<void> {
  const id = book.releases.get(examId) ?? `release-${examId}`;
  book.releases.set(examId, id);
  const call = () => release(door, examId, id);
  if (isLate) accepted('release', await call(), 202);
  else await untilAnswered('release', call, ({ status }) => status === 200);
}

export async function register(book: Book, door: string): Promise<void> {
  const email = newEmail();
  const body = { email, password: PASSWORD, fullName: 'Nguyễn Văn An' };
  const reply = await exchange<Tokens>(`${door}/v1/auth/register`, { method: 'POST', body });
  const { refreshToken } = accepted('register', reply, 201).data;
  book.sessions.push({ email, refreshToken, used: null, rotations: 0 });
}

interface Tokens {
  refreshToken: string;
}

/** Exchanges the refresh token of a session. */
export async function rotate(door: string, session: Session): Promise<void> {
  const reply = await refresh(door, session.refreshToken);
  [session.used, session.refreshToken] = [session.refreshToken, accepted('refresh', reply, 200).data.refreshToken];
  session.rotations += 1;
}

export function refresh(door: string, refreshToken: string): Promise<HttpReply<Tokens>> {
  return exchange<Tokens>(`${door}/v1/auth/refresh`, { method: 'POST', body: { refreshToken } });
}

/** Creates a classification job of seven questions, which are two batches. */
export async function createJob(book: Book, door: string): Promise<string> {
  const name = randomUUID();
  const questionIds = Array.from({ length: 7 }, (_, n) => `q-${n + 1}-of-${name}`);
  const body = { questionIds, fields: ['topic', 'difficulty'], mode: 'AUTO' };
  const call = { method: 'POST', headers: TEACHER, body };
  const reply = await exchange<{ job: { id: string } }>(`${door}/v1/ai-classifier/jobs`, call);
  const { id } = accepted('job', reply, 201).data.job;
  book.jobs.push({ id, questions: questionIds.length });
  return id;
}

/** Requests a paid generation once and returns the reply. Equal topics are equal requests. */
export function generate(
  book: Book,
  door: string,
  topic: string,
): Promise<HttpReply<{ previewId: string; chargePolicy?: string }>> {
  book.topics.add(topic);
  const request = { mode: 'fresh', subject: 'Toán', gradeLevel: 12, topic, questionType: 'NUMERIC' };
  const body = { ...request, difficulty: 'dễ', count: 2 };
  return exchange(`${door}/v1/ai/generation/preview`, { method: 'POST', headers: TEACHER, body });
}

/** Requests a paid generation until it is paid. The gateway follows 503 by itself. */
export async function generatePaid(book: Book, door: string, topic: string): Promise<void> {
  await untilAnswered(
    'generation',
    () => generate(book, door, topic),
    ({ status }) => status === 200,
  );
}

/** Creates a notification for a new user. */
export async function notify(book: Book, door: string): Promise<void> {
  const userId = `user-${randomUUID()}`;
  const body = { userId, type: 'GRADE_RELEASED', title: 'Kết quả', content: 'Đã có kết quả.' };
  accepted('notification', await exchange(`${door}/v1/notifications`, { method: 'POST', headers: ADMIN, body }), 201);
  book.notified.push(userId);
}

/** Notifies as many new users with one call. */
export async function broadcast(book: Book, door: string, count: number): Promise<void> {
  const users = Array.from({ length: count }, (_, n) => `user-${n}-of-${randomUUID()}`);
  const text = { type: 'ADMIN_BROADCAST', title: 'Nghỉ lễ', content: 'Trường nghỉ ngày mai.' };
  const body = { notifications: users.map((userId) => ({ userId, ...text })) };
  accepted('batch', await exchange(`${door}/v1/notifications/batch`, { method: 'POST', headers: ADMIN, body }), 201);
  book.recipients.push(...users);
}

/** Repeats a call while its worker is late: 202 and 503. @throws CallFailed for another refusal, or after a minute */
export async function untilAnswered<Data>(
  what: string,
  call: () => Promise<HttpReply<Data>>,
  isDone: (reply: HttpReply<Data>) => boolean,
): Promise<HttpReply<Data>> {
  const giveUpAt = performance.now() + LATE_MS;
  for (;;) {
    const reply = await call();
    if (reply.status < 300 && isDone(reply)) return reply;
    if (![200, 202, 503].includes(reply.status) || performance.now() > giveUpAt) accepted(what, reply, 0);
    await delay(PACE_MS);
  }
}

function accepted<Data>(what: string, reply: HttpReply<Data>, status: number): HttpReply<Data> {
  if (reply.status === status) return reply;
  throw new CallFailed(`${what} answered ${reply.status} ${reply.text.slice(0, 300)}`);
}
