import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { exchange, type HttpReply, retryOn503 } from '#testing/clients/call.ts';
import { type Detail, type ExamPlan, release, type Student, sendHandoff, student } from '#testing/clients/sitting.ts';

export interface Sitting {
  who: Student;
  attemptId: string;
  plan: ExamPlan;
  answers: Map<string, string>;
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
}

const QUESTIONS = 4;
const PACE_MS = 100;
/** Longest wait for a worker that the caller sees as 202. */
const LATE_MS = 60_000;
export const TEACHER = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
const ADMIN = { 'x-actor-id': 'admin-1', 'x-actor-role': 'ADMIN' };

export type Book = ReturnType<typeof newBook>;

/** Returns the promises to clients, to be compared with what is stored at the end. The calls below fill them. */
export function newBook(door: () => Promise<string>) {
  return {
    door,
    sittings: [] as Sitting[],
    sessions: [] as Session[],
    releases: new Set<string>(),
    jobs: [] as string[],
    /** Topics of paid generations; one request each, perhaps repeated. */
    topics: new Set<string>(),
    /** Users with exactly one notification of their own, which is also delivered over the webhook. */
    notified: [] as string[],
  };
}

/** Makes a call, again after each 503. @throws Error without a reply, or for another status than these */
export async function made<Data>(
  { door }: Book,
  call: (door: string) => Promise<HttpReply<Data>>,
  ...statuses: number[]
): Promise<HttpReply<Data>> {
  const reply = await retryOn503(async () => call(await door()));
  if (!statuses.includes(reply.status)) throw new Error(`a call answered ${reply.status} ${reply.text.slice(0, 300)}`);
  return reply;
}

/** Makes a call until its reply is final, while its worker is late. */
async function finished<Data>(
  book: Book,
  call: (door: string) => Promise<HttpReply<Data>>,
  isFinal: (reply: HttpReply<Data>) => boolean = ({ status }) => status === 200,
): Promise<void> {
  for (const giveUpAt = performance.now() + LATE_MS; ; await delay(PACE_MS)) {
    const reply = await made(book, call, 200, 202);
    if (isFinal(reply)) return;
    if (performance.now() > giveUpAt) throw new Error(`no worker has finished: ${reply.text.slice(0, 300)}`);
  }
}

/** Starts an attempt. With an essay its results wait for the release of the exam; otherwise they are visible at once. */
export async function start(book: Book, examId: string, { essay = false } = {}): Promise<Sitting> {
  const who = student();
  const plan: ExamPlan = { examId, questions: QUESTIONS, essay, showResultMode: essay ? 'MANUAL' : 'IMMEDIATE' };
  const reply = await made(book, (door) => who.start(door, plan), 201);
  const sitting: Sitting = { who, attemptId: reply.data.attempt.id, plan, answers: new Map(), saves: 0, essay: null };
  book.sittings.push(sitting);
  return sitting;
}

/** Saves as many answers: most are right, and each question is answered again later. */
export async function save(book: Book, sitting: Sitting, times: number): Promise<void> {
  for (let n = 0; n < times; n++) {
    const nth = sitting.saves;
    const number = (nth % (sitting.plan.essay === true ? QUESTIONS + 1 : QUESTIONS)) + 1;
    const isEssay = number > QUESTIONS;
    const questionId = isEssay ? 'essay' : `q${number}`;
    const text = isEssay ? `Bài làm ${nth}` : nth % 3 === 0 ? '99' : String(number);
    await made(book, (door) => sitting.who.save(door, sitting.attemptId, { questionId, text }), 200);
    sitting.answers.set(questionId, text);
    sitting.saves += 1;
  }
}

/** Submits until the attempt is graded; `isLate`: until the submit is acknowledged, while no worker grades. */
export async function submit(book: Book, { who, attemptId }: Sitting, isLate = false): Promise<void> {
  const status = isLate ? 'SUBMITTED' : 'GRADED';
  await finished<Detail>(
    book,
    (door) => who.submit(door, attemptId),
    ({ data }) => data.status === status,
  );
}

/** Hands a grade of the essay off. `isLate`: while no worker applies it. */
export async function handOff(book: Book, sitting: Sitting, score: number, isLate = false): Promise<void> {
  const handoff = { sourceEventId: `handoff-${sitting.attemptId}`, questionId: 'essay', score };
  const call = (door: string) => sendHandoff(door, sitting.attemptId, handoff);
  sitting.essay = score;
  await (isLate ? made(book, call, 202) : finished(book, call));
}

/** Releases the results of an exam. `isLate`: while no worker releases them. */
export async function releaseExam(book: Book, examId: string, isLate = false): Promise<void> {
  book.releases.add(examId);
  const call = (door: string) => release(door, examId, `release-${examId}`);
  await (isLate ? made(book, call, 202) : finished(book, call));
}

interface Tokens {
  refreshToken: string;
}

export async function register(book: Book): Promise<void> {
  const email = newEmail();
  const body = { email, password: PASSWORD, fullName: 'Nguyễn Văn An' };
  const call = (door: string) => exchange<Tokens>(`${door}/v1/auth/register`, { method: 'POST', body });
  const { refreshToken } = (await made(book, call, 201)).data;
  book.sessions.push({ email, refreshToken, used: null });
}

export async function rotate(book: Book, session: Session): Promise<void> {
  const reply = await made(book, (door) => refresh(door, session.refreshToken), 200);
  [session.used, session.refreshToken] = [session.refreshToken, reply.data.refreshToken];
}

export function refresh(door: string, refreshToken: string): Promise<HttpReply<Tokens>> {
  return exchange<Tokens>(`${door}/v1/auth/refresh`, { method: 'POST', body: { refreshToken } });
}

/** Creates a classification job of seven questions, which are two batches. */
export async function createJob(book: Book): Promise<string> {
  const name = randomUUID();
  const questionIds = Array.from({ length: 7 }, (_, n) => `q-${n + 1}-of-${name}`);
  const options = { method: 'POST', headers: TEACHER, body: { questionIds, fields: ['topic', 'difficulty'] } };
  const call = (door: string) => exchange<{ job: { id: string } }>(`${door}/v1/ai-classifier/jobs`, options);
  const { id } = (await made(book, call, 201)).data.job;
  book.jobs.push(id);
  return id;
}

/** Requests a paid generation once. Equal topics are equal requests. */
export async function generate(book: Book, topic: string): Promise<HttpReply> {
  book.topics.add(topic);
  const request = { mode: 'fresh', subject: 'Toán', gradeLevel: 12, topic, questionType: 'NUMERIC' };
  const options = { method: 'POST', headers: TEACHER, body: { ...request, difficulty: 'dễ', count: 2 } };
  return exchange(`${await book.door()}/v1/ai/generation/preview`, options);
}

export function generatePaid(book: Book, topic: string): Promise<void> {
  return finished(book, () => generate(book, topic));
}

export async function notify(book: Book): Promise<void> {
  const userId = `user-${randomUUID()}`;
  const body = { userId, type: 'GRADE_RELEASED', title: 'Kết quả', content: 'Đã có kết quả.' };
  const options = { method: 'POST', headers: ADMIN, body };
  await made(book, (door) => exchange(`${door}/v1/notifications`, options), 201);
  book.notified.push(userId);
}
