import type { Answer } from '#shared/generated/attempt.ts';
import type { Caller, Gateway } from './gateway.ts';
import { ORGANIZATION, TEACHER } from './paper.ts';
import type { Student } from './students.ts';

/** What the demo knows of one student's exam because the service said so: the record that everything is held against. */
export interface Sitting {
  student: Student;
  attemptId: string;
  /** The last acknowledged answer to each question. */
  answers: Map<string, Answer>;
  /** The server's version of each. */
  versions: Map<string, number>;
  savesAcknowledged: number;
  eventsAcknowledged: number;
  /** Saves and events that were sent again because no reply came: each sending before the last may have been stored. */
  actsInDoubt: number;
  /** Points of the essay that were handed off; null = none. */
  essayPoints: number | null;
}

/** What every part of the demo works with. */
export interface DemoDeps {
  gateway: Gateway;
  /** Sent by the demo as gateway, exam service and AI classifier. */
  internalToken: string;
  examId: string;
  /** Notes what should not be; the demo goes on and fails at its end. */
  complain(fault: string): void;
}

/** The teacher of the exam, in its organization. */
export function asTeacher(): Caller {
  return { id: TEACHER, role: 'TEACHER', organizationId: ORGANIZATION };
}

export function asStudent(student: Student) {
  return { id: student.id, role: 'STUDENT' as const };
}
