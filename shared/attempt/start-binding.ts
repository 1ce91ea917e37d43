import type { Rejection } from '#shared/kernel/errors.ts';
import { parseInstant } from '#shared/kernel/time.ts';
import type { CourseContext } from './attempt.ts';
import type { CourseContextInput, StartBody } from './start-body.ts';

/** The only sender and the only validator of a course context. */
export const COURSE_SERVICE = 'course-service';

/**
 * Rules 2 and 12, which bind the body to the path, to the student and to the course service's marker header. They
 * run before the replay of a key: a body about someone else must not even learn that a key is known.
 */
export function bindStart(
  request: { examId: string; studentId: string; courseMarker: string | null },
  body: Pick<StartBody, 'exam' | 'courseAttemptContext'>,
): { courseContext: CourseContext | null } | Rejection {
  if (body.exam.id !== request.examId) return { rejected: 'EXAM_ID_MISMATCH' };
  const input = body.courseAttemptContext ?? null;
  if (input === null) return { courseContext: null };
  if (request.courseMarker !== COURSE_SERVICE) return { rejected: 'COURSE_CONTEXT_UNTRUSTED' };
  const courseContext = readCourseContext(input);
  const matches =
    courseContext !== null &&
    input.examId === request.examId &&
    courseContext.studentId === request.studentId &&
    courseContext.organizationId === (body.exam.organizationId ?? null);
  return matches ? { courseContext } : { rejected: 'COURSE_CONTEXT_INVALID' };
}

/** All or none: null unless every field is there and course-service is the validator. */
function readCourseContext(input: CourseContextInput): CourseContext | null {
  const { courseId, courseQuizReferenceId, lessonId, studentId, organizationId, validatedBy, validatedAt } = input;
  if (!isName(courseId) || !isName(courseQuizReferenceId) || !isName(lessonId)) return null;
  if (!isName(studentId) || !isName(organizationId)) return null;
  if (validatedBy !== COURSE_SERVICE || typeof validatedAt !== 'string') return null;
  const instant = parseInstant(validatedAt);
  if (instant === null) return null;
  return { courseId, courseQuizReferenceId, lessonId, studentId, organizationId, validatedBy, validatedAt: instant };
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}
