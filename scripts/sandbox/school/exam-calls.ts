import { asStudent, countRequests, finalOf, type Gateway } from '#scripts/sandbox/gateway.ts';
import type {
  CallOptions,
  EssayGradeHandoffRequest,
  ExamRuntime,
  HandoffReply,
  Outcome,
  ReleaseReply,
  StartQuestion,
  StartReply,
} from '../../../clients/typescript/src/index.ts';
import { gradeEssay } from './paper.ts';
import type { Student } from './school.ts';

/** A start of an attempt. */
export interface Start {
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
  return gateway.client('start', { losesReply }).startAttempt({
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
  const client = gateway.client('submit → graded', { losesReply });
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
