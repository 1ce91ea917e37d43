import type { CourseContext } from './attempt.ts';

/** The course context as replies and events carry it: named fields only, its instant as ISO 8601 text. */
export function courseContextOnWire(context: CourseContext | null) {
  if (context === null) return null;
  return {
    courseId: context.courseId,
    courseQuizReferenceId: context.courseQuizReferenceId,
    lessonId: context.lessonId,
    studentId: context.studentId,
    organizationId: context.organizationId,
    validatedBy: context.validatedBy,
    validatedAt: context.validatedAt.toISOString(),
  };
}
