import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * `node scripts/testing/image/smoke.ts URL`: a new student registers, signs in, starts, saves and submits at a cluster and reads the grade. Exits
 * with 1 if a step fails. Reads the tokens of the cluster from INTERNAL_SERVICE_TOKEN and GATEWAY_TOKEN. Needs no installed package.
 */

export interface SmokeTokens {
  readonly internal: string;
  /** Undefined or empty without GATEWAY_TOKEN. */
  readonly gateway?: string | undefined;
}

const START = path.resolve(import.meta.dirname, '../../../examples/start.json');
const TIMEOUT_MS = 60_000;

/** Carries out the steps and returns them, each with its status. @throws Error at the first step with another status or another grade */
export async function smoke(url: string, { internal, gateway = '' }: SmokeTokens): Promise<string[]> {
  const [id, password] = [randomUUID(), `Mot-mat-khau-${randomUUID()}`];
  const email = `${id}@truong.example`;
  const student = { 'x-user-id': id, 'x-user-role': 'STUDENT' };
  const exam = {
    'x-internal-service': 'api-gateway',
    'x-internal-token': internal,
    'x-exam-runtime-decision-source': 'exam-service',
    'idempotency-key': id,
  };
  const steps: string[] = [];

  // biome-ignore lint/suspicious/noExplicitAny: the members of each reply are verified where they are used
  async function call(step: string, target: string, wanted: number, body?: unknown, headers = {}): Promise<any> {
    const reply = await fetch(new URL(target, url), {
      method: 'POST',
      headers: {
        ...(gateway === '' ? {} : { 'x-gateway-token': gateway }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await reply.text();
    if (reply.status !== wanted) throw new Error(`${step}: ${reply.status} instead of ${wanted}: ${text}`);
    steps.push(`${step}: ${reply.status}`);
    return JSON.parse(text).data;
  }

  await call('register', '/v1/auth/register', 201, { email, password, fullName: 'Mai', role: 'STUDENT' });
  await call('log in', '/v1/auth/login', 200, { email, password });
  const decision = JSON.parse(readFileSync(START, 'utf8'));
  const started = await call('start', '/v1/exams/exam-1/attempts', 201, decision, { ...student, ...exam });
  const attempt = `/v1/attempts/${started.attempt.id}`;
  const answer = { questionId: 'q1', answer: { selectedOptionIds: ['b'] }, clientVersion: 0 };
  await call('save', `${attempt}/answers`, 200, answer, student);
  const graded = await call('submit', `${attempt}/submit`, 200, undefined, student);
  if (graded.status !== 'GRADED' || graded.totalScore !== 4)
    throw new Error(`submit: ${graded.status} with ${graded.totalScore} instead of GRADED with 4`);
  return steps;
}

if (import.meta.main) {
  const { INTERNAL_SERVICE_TOKEN: internal = 'dev-internal-token', GATEWAY_TOKEN: gateway } = process.env;
  const steps = await smoke(process.argv[2] ?? 'http://127.0.0.1:3000', { internal, gateway });
  console.log(steps.join('\n'));
}
