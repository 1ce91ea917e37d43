import type { Caller, Gateway } from '#scripts/sandbox/gateway.ts';
import { ORGANIZATION, TEACHER } from '#scripts/sandbox/school/paper.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type { Answer } from '#shared/generated/attempt.ts';

/** Record of one student's attempt: everything that the service acknowledged. Later readings are compared with it. */
export interface Sitting {
  student: Student;
  attemptId: string;
  /** The last acknowledged answer to each question. */
  answers: Map<string, Answer>;
  /** The server's version of each answer. */
  versions: Map<string, number>;
  savesAcknowledged: number;
  eventsAcknowledged: number;
  /** Sendings of saves and events that had no reply; each may have been stored. */
  actsInDoubt: number;
  /** Points of the essay's handoff; null without one. */
  essayPoints: number | null;
}

/** Dependencies of every part of the demo. */
export interface DemoDeps {
  gateway: Gateway;
  /** The token that the demo sends in the name of the gateway, the exam service and the AI classifier. */
  internalToken: string;
  examId: string;
  /** Records a fault. The demo continues and fails at its end. */
  complain(fault: string): void;
}

/** Returns the teacher of the exam, with its organization. */
export function asTeacher(): Caller {
  return { id: TEACHER, role: 'TEACHER', organizationId: ORGANIZATION };
}

/** Returns a student as caller. */
export function asStudent(student: Student) {
  return { id: student.id, role: 'STUDENT' as const };
}
