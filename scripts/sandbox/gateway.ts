import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import {
  type CallOptions,
  type Client,
  createClient,
  type EssayGradeHandoffRequest,
  ExamhallError,
  type ExamRuntime,
  type HandoffReply,
  type Identity,
  type Outcome,
  type ReleaseReply,
  type SentRequest,
  type Service,
  type StartQuestion,
  type StartReply,
} from '../../clients/typescript/src/index.ts';
import { gradeEssay } from './school/paper.ts';
import type { Student } from './school/school.ts';

/** The client of the sandbox, in the place of the API gateway and of the services that call examhall. */
export type Gateway = ReturnType<typeof openGateway>;

const TIMEOUT_MS = 20_000;
const TRIES = 8;
/** Longest `Retry-After` for which a call waits: that of an address that is slowed. */
const MAX_PAUSE_MS = 10_000;
/** Time limit of a call with the wait for its result: a whole year may submit at once. */
const DEADLINE_MS = 180_000;
/** Time after which a lost request is cut: its reply takes longer. */
const HANG_UP_MS = 4;

/** Opens the gateway with the tokens of a cluster that has this environment. */
export function openGateway(url: string, env: NodeJS.ProcessEnv) {
  const clients = new Map<string, Client>();
  const latencies = new Map<string, RecordableHistogram>();
  const token = env.ATTEMPT_INTERNAL_SERVICE_TOKEN ?? env.INTERNAL_SERVICE_TOKEN ?? 'dev-internal-token';
  let repeated = 0;

  function record(name: string, ms: number): void {
    const times = latencies.get(name) ?? createHistogram();
    latencies.set(name, times);
    times.record(Math.max(1, Math.round(ms * 1_000)));
  }

  function open(name: string, options: { fetch?: typeof fetch }): Client {
    return createClient({
      baseUrl: url,
      gatewayToken: env.GATEWAY_TOKEN,
      tries: TRIES,
      timeoutMs: TIMEOUT_MS,
      deadlineMs: DEADLINE_MS,
      maxPauseMs: MAX_PAUSE_MS,
      observe({ status, ms }) {
        if (status === 0 || status === 429 || status === 503) repeated += 1;
        if (status !== 0) record(name, ms);
      },
      ...options,
    });
  }

  return {
    /**
     * Returns a client whose requests have this name in `latencies`. If it `losesReply`, it hangs up on its first request, whose effect is
     * then unknown, and sends it again.
     */
    client(name: string, losesReply = false): Client {
      if (losesReply) return open(name, { fetch: losingFetch() });
      const client = clients.get(name) ?? open(name, {});
      clients.set(name, client);
      return client;
    },
    service: (name: string): Service => ({ name, token }),
    /** Returns the names of the services that the cluster serves. @throws Error if none answers there */
    async services(): Promise<ReadonlySet<string>> {
      const askedAt = performance.now();
      const reply = await fetch(new URL('/v1', url), { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!reply.ok) throw new Error(`GET /v1 answered ${reply.status}`);
      const { data } = (await reply.json()) as { data: { services: string[] } };
      record('services', performance.now() - askedAt);
      return new Set(data.services);
    },
    /** Durations of requests in microseconds, by the name of their call. */
    latencies,
    /** Returns the number of requests that had no reply, or one that asks to come again. */
    repeated: () => repeated,
  };
}

/** Returns a `fetch` that hangs up on its first request. The server may or may not have executed it. */
function losingFetch(): typeof fetch {
  let isFirst = true;
  return (input, init = {}) => {
    if (!isFirst) return fetch(input, init);
    isFirst = false;
    const left = AbortSignal.timeout(HANG_UP_MS);
    return fetch(input, { ...init, signal: init.signal ? AbortSignal.any([init.signal, left]) : left });
  };
}

/** Counts the requests of one call. If there is more than one, its result may be that of an earlier request. */
export function countRequests() {
  const statuses: number[] = [];
  return {
    observe: ({ status }: SentRequest) => void statuses.push(status),
    count: () => statuses.length,
    lastStatus: () => statuses.at(-1) ?? 0,
  };
}

/** Returns the failure of a call, or null if it succeeds. @throws any other error */
export async function refusalOf(call: Promise<unknown>): Promise<ExamhallError | null> {
  try {
    await call;
    return null;
  } catch (error) {
    if (error instanceof ExamhallError) return error;
    throw error;
  }
}

/** Returns the result of a call that may be answered 202. @throws Error if it did not come in time */
export function finalOf<Data>(name: string, outcome: Outcome<Data, unknown>): Data {
  if (outcome.done) return outcome.data;
  throw new Error(`${name} is still not done; do the workers of the cluster run?`);
}

export function asStudent({ id }: { id: string }): Identity {
  return { id, role: 'STUDENT' };
}

interface Start {
  exam: ExamRuntime;
  student: Student;
  questions: readonly StartQuestion[];
  /** Equal keys start one attempt. */
  key: string;
}

/** Starts an attempt as the gateway does. */
export function startAttempt(
  gateway: Gateway,
  { exam, student, questions, key }: Start,
  losesReply = false,
): Promise<StartReply> {
  const { fullName, studentCode, className, email } = student;
  return gateway.client('start', losesReply).startAttempt({
    examId: exam.id,
    as: asStudent(student),
    service: gateway.service('api-gateway'),
    headers: { 'x-exam-runtime-decision-source': 'exam-service' },
    idempotencyKey: key,
    body: {
      exam,
      access: { assigned: true, attemptLimit: 1 },
      questions: [...questions],
      studentInfo: { fullName, studentCode, className, email },
    },
  });
}

/** Submits an attempt and waits for its grading. */
export async function submitAttempt(
  gateway: Gateway,
  { attemptId, student }: { attemptId: string; student: Student },
  losesReply = false,
) {
  const client = gateway.client('submit → graded', losesReply);
  const outcome = await client.submitAttempt({ attemptId, as: asStudent(student), body: { source: 'STUDENT' } });
  return finalOf(`the grading of attempt ${attemptId}`, outcome);
}

/** Reply to an event of a service. If it `wasRepeated`, its counts may be those of a replay. */
type Answered<Reply> = Reply & { wasRepeated: boolean };

/** Hands an essay grade off as the AI classifier does, and waits until it is applied. */
export function handOffGrade(
  gateway: Gateway,
  attemptId: string,
  body: EssayGradeHandoffRequest,
): Promise<Answered<HandoffReply>> {
  const service = gateway.service('ai-classifier-service');
  return answered('the essay grade', (options) =>
    gateway.client('essay handoff').handOffGrade({ attemptId, service, body, ...options }),
  );
}

/** Releases the results of an exam as the exam service does, and waits until the release is done. */
export function releaseResults(
  gateway: Gateway,
  release: { sourceEventId: string; organizationId: string; examId: string; releasedAt: string },
): Promise<Answered<ReleaseReply>> {
  const service = gateway.service('exam-service');
  const body = { sourceService: 'exam-service', type: 'exam.results_released.v1', ...release } as const;
  return answered('the release', (options) => gateway.client('release').releaseResults({ service, body, ...options }));
}

async function answered<Reply extends object>(
  name: string,
  call: (options: CallOptions) => Promise<Outcome<Reply, unknown>>,
): Promise<Answered<Reply>> {
  const requests = countRequests();
  const reply = finalOf<Reply>(name, await call({ observe: requests.observe }));
  return { ...reply, wasRepeated: requests.count() > 1 };
}

/** Returns a handoff as the AI classifier would send it, with the sandbox's own grade. */
export function madeUpHandoff(
  attemptId: string,
  text: string,
  { questionId, score: maxScore }: StartQuestion,
): EssayGradeHandoffRequest {
  return {
    sourceService: 'ai-classifier-service',
    type: 'ai.essay_grade.handoff.v1',
    sourceEventId: `grade-${attemptId}`,
    questionId,
    maxScore,
    ...gradeEssay(text, maxScore),
    provider: 'demo',
    model: 'rubric',
    occurredAt: new Date().toISOString(),
  };
}
