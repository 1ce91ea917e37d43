import { peer } from '#scripts/bench/peers.ts';
import type { SaveAnswerRequest, StartRequest } from '#shared/generated/attempt.ts';

/**
 * The service that a team would write instead: Fastify and Mongoose with their defaults in one process. A start stores the questions with
 * the attempt. A save reads the attempt, checks it, writes it and an event. A submit grades within the request, in one transaction with
 * its event and two notices. Each reply is the attempt in detail.
 */
interface Fastify {
  post(path: string, handler: (request: Asked, reply: { code(status: number): void }) => Promise<object>): void;
  setErrorHandler(handler: (error: unknown, request: unknown, reply: { code(status: number): void }) => object): void;
  listen(address: { port: number; host: string }): Promise<unknown>;
}
interface Asked {
  params: Record<string, string>;
  headers: Record<string, string>;
  body: unknown;
}
// The types of a package that only the bench installs are not here.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Any = any;

const { default: mongoose } = await peer<{ default: Any }>('mongoose');
const { default: fastify } = await peer<{ default(options: object): Fastify }>('fastify');
const { PORT, MONGODB_URL = '', MONGODB_DATABASE } = process.env;
await mongoose.connect(MONGODB_URL, { dbName: MONGODB_DATABASE, writeConcern: { w: 'majority', journal: true } });

const { Schema } = mongoose;
const Answer = new Schema(
  {
    selectedOptionIds: { type: [String], default: undefined },
    textAnswer: String,
    statementAnswers: { type: [{ _id: false, statementId: String, value: Boolean }], default: undefined },
    version: Number,
    isCorrect: Boolean,
    score: Number,
  },
  { _id: false, timestamps: { createdAt: false } },
);
const attemptSchema = new Schema(
  {
    examId: { type: String, required: true },
    studentId: { type: String, required: true },
    status: { type: String, enum: ['IN_PROGRESS', 'GRADED'], default: 'IN_PROGRESS' },
    number: Number,
    exam: Object,
    questions: [Object],
    answers: { type: Map, of: Answer, default: {} },
    startedAt: Date,
    deadlineAt: Date,
    submittedAt: Date,
    totalScore: Number,
    correctCount: Number,
  },
  { timestamps: true },
);
attemptSchema.index({ studentId: 1, examId: 1, number: 1 }, { unique: true });
attemptSchema.index({ examId: 1, status: 1 });
attemptSchema.index({ status: 1, deadlineAt: 1 });
const Attempt = mongoose.model('Attempt', attemptSchema);
const eventSchema = new Schema({ attemptId: Schema.Types.ObjectId, type: String, metadata: Object, createdAt: Date });
eventSchema.index({ attemptId: 1, createdAt: 1 });
const Event = mongoose.model('Event', eventSchema);
const noticeSchema = new Schema({ attemptId: Schema.Types.ObjectId, kind: String, sentAt: Date, createdAt: Date });
noticeSchema.index({ sentAt: 1, createdAt: 1 });
const Notice = mongoose.model('Notice', noticeSchema);
await Promise.all([Attempt.init(), Event.init(), Notice.init()]);

const server = fastify({ logger: { level: 'info' }, bodyLimit: 10 * 1_024 * 1_024 });

server.post('/v1/exams/:examId/attempts', async ({ params, headers, body }, reply) => {
  const { exam, questions } = body as StartRequest;
  const of = { examId: params.examId, studentId: headers['x-user-id'] };
  const earlier = await Attempt.find(of).select('status number').lean();
  if (earlier.some(({ status }: { status: string }) => status === 'IN_PROGRESS')) throw new Error('already open');
  const startedAt = new Date();
  const deadlineAt = new Date(startedAt.getTime() + (exam.durationMinutes ?? 90) * 60_000);
  const attempt = await Attempt.create({ ...of, number: earlier.length + 1, exam, questions, startedAt, deadlineAt });
  await Event.create({ attemptId: attempt._id, type: 'START', createdAt: startedAt });
  reply.code(201);
  return { success: true, data: { attempt: detail(attempt), created: true } };
});

server.post('/v1/attempts/:id/answers', async ({ params, headers, body }) => {
  const { questionId, answer } = body as SaveAnswerRequest;
  const attempt = await owned(params.id, headers['x-user-id']);
  if (attempt.status !== 'IN_PROGRESS' || attempt.deadlineAt < new Date()) throw new Error('not open');
  if (!attempt.questions.some((one: Any) => one.questionId === questionId)) throw new Error('unknown question');
  const version = (attempt.answers.get(questionId)?.version ?? 0) + 1;
  attempt.answers.set(questionId, { ...answer, version });
  await attempt.save();
  const metadata = { questionId, version };
  await Event.create({ attemptId: attempt._id, type: 'SAVE_ANSWER', metadata, createdAt: new Date() });
  return { success: true, data: detail(attempt) };
});

server.post('/v1/attempts/:id/submit', async ({ params, headers }) => {
  const graded = await mongoose.connection.transaction(async (session: Any) => {
    const attempt = await owned(params.id, headers['x-user-id'], session);
    if (attempt.status !== 'IN_PROGRESS') return attempt;
    grade(attempt);
    await attempt.save({ session });
    const at = new Date();
    await Event.create([{ attemptId: attempt._id, type: 'SUBMIT', createdAt: at }], { session });
    const notices = ['STUDENT', 'PARENT'].map((kind) => ({ attemptId: attempt._id, kind, createdAt: at }));
    await Notice.create(notices, { session, ordered: true });
    return attempt;
  });
  return { success: true, data: detail(graded) };
});

async function owned(id: string | undefined, studentId: string | undefined, session?: Any): Promise<Any> {
  const attempt = await Attempt.findById(id).session(session ?? null);
  if (attempt === null || attempt.studentId !== studentId) throw new Error('no such attempt');
  return attempt;
}

function grade(attempt: Any): void {
  let [total, correct] = [0, 0];
  for (const question of attempt.questions) {
    const answer = attempt.answers.get(question.questionId);
    if (answer === undefined) continue;
    answer.isCorrect = isRight(question, answer);
    answer.score = answer.isCorrect ? question.score : 0;
    total += answer.score;
    correct += answer.isCorrect ? 1 : 0;
  }
  attempt.set({ status: 'GRADED', submittedAt: new Date(), totalScore: total, correctCount: correct });
}

function isRight({ type, answerKey }: Any, answer: Any): boolean {
  if (type === 'SINGLE_CHOICE') return answer.selectedOptionIds?.join() === answerKey.correctOptionIds.join();
  if (type === 'NUMERIC') return Number(answer.textAnswer?.replace(',', '.')) === answerKey.numericAnswers[0].value;
  const given = new Map(answer.statementAnswers?.map((one: Any) => [one.statementId, one.value]));
  return answerKey.statements.every((one: Any) => given.get(one.statementId) === one.value);
}

/** The detail that the student sees: the questions without their keys, the answers with their grades. */
function detail(attempt: Any) {
  const { _id, questions, answers, __v, ...rest } = attempt.toObject({ flattenMaps: true });
  const shown = questions.map(({ answerKey, ...question }: Any) => question);
  return { id: _id, ...rest, questions: shown, answers };
}

await server.listen({ port: Number(PORT), host: '127.0.0.1' });
process.on('SIGTERM', () => process.exit(0));
process.stdout.write('bench server is ready\n');
