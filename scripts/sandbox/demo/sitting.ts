import type { Gateway } from '#scripts/sandbox/gateway.ts';
import { ORGANIZATION, TEACHER } from '#scripts/sandbox/school/paper.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type { Answer, Identity } from '../../../clients/typescript/src/index.ts';

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
  /** Requests of saves and events that had no reply; each may have been stored. */
  actsInDoubt: number;
  /** Points of the essay's handoff; null without one. */
  essayPoints: number | null;
}

/** Dependencies of every part of the demo. */
export interface DemoDeps {
  gateway: Gateway;
  examId: string;
  /** Records a fault. The demo continues and fails at its end. */
  complain(fault: string): void;
}

/** The teacher of the exam, with its organization. */
export const THE_TEACHER: Identity = { id: TEACHER, role: 'TEACHER', organizationId: ORGANIZATION };
