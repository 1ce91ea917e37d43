import { followJob } from '#scripts/sandbox/demo/classify-paper.ts';
import {
  asStudent,
  countRequests,
  handOffGrade,
  madeUpHandoff,
  refusalOf,
  releaseResults,
  startAttempt,
  submitAttempt,
} from '#scripts/sandbox/gateway.ts';
import { answerSheet } from '#scripts/sandbox/school/answer-sheet.ts';
import { type Classroom, runtimeOf, type SeedExam, type Student } from '#scripts/sandbox/school/school.ts';
import { runPart } from '#scripts/start/progress.ts';
import type { Answer, Identity, Preferences } from '../../../clients/typescript/src/index.ts';
import type { Filling } from './people.ts';

const ANNOUNCED = 'EXAM_ASSIGNED';
const MUTED_UNTIL = '2099-01-01T00:00:00.000Z';
/** Students of a class whose parents are alerted to a weak topic. */
const WEAK_STUDENTS = 2;
const AT_ONCE = 8;

/** Sets preferences, announces the exams, and alerts parents to weak topics. */
export async function fillInboxes(filling: Filling): Promise<void> {
  const { served, note, progress, school } = filling;
  if (!served.has('notification')) {
    note('The cluster serves no `notification`, so the school has no inboxes.');
    return;
  }
  const students = school.classes.flatMap((room) => room.students);
  const choosy = students.flatMap((student, index): [Student, Partial<Preferences>][] => {
    // Every tenth student has switched announcements off, and every fifteenth has muted everything.
    if (index % 15 === 14) return [[student, { mutedUntil: MUTED_UNTIL }]];
    return index % 10 === 9 ? [[student, { enabledTypes: { [ANNOUNCED]: false } }]] : [];
  });
  await runPart(progress, 'preferences', choosy, (wish) => setPreferences(filling, ...wish), AT_ONCE);
  await runPart(progress, 'announcements', school.exams, (exam) => announce(filling, exam), AT_ONCE);
  await runPart(progress, 'alerts to parents', school.classes, (room) => alertParents(filling, room), AT_ONCE);
}

async function setPreferences({ gateway, add }: Filling, student: Student, wishes: Partial<Preferences>) {
  const [client, as] = [gateway.client('preferences'), asStudent(student)];
  const present = await client.readPreferences({ as });
  const isSet = present.mutedUntil === (wishes.mutedUntil ?? null);
  const isChosen = (wishes.enabledTypes?.[ANNOUNCED] ?? null) === (present.enabledTypes[ANNOUNCED] ?? null);
  if (isSet && isChosen) return;
  await client.changePreferences({ as, body: wishes });
  add('preferences');
}

/** Announces an exam to its class, once for all runs. */
async function announce({ gateway, school, add }: Filling, exam: SeedExam): Promise<void> {
  const { organizationId, students } = exam.classroom;
  const about = { entity: 'Exam', entityId: exam.id, organizationId };
  const requests = countRequests();
  const { created } = await gateway.client('announce').createBatch({
    as: { id: school.adminId, role: 'ADMIN', organizationId },
    observe: requests.observe,
    body: {
      event: {
        sourceService: 'exam-service',
        sourceEventId: `seed-${exam.id}-assigned`,
        type: 'exam.assigned.notification.v1',
        actorId: runtimeOf(exam).createdById ?? '',
        ...about,
      },
      notifications: students.map(({ id }) => ({
        userId: id,
        type: ANNOUNCED,
        title: 'Bạn có bài kiểm tra mới',
        content: `Giáo viên đã giao "${exam.title}".`,
        ...about,
      })),
    },
  });
  if (requests.lastStatus() === 201) add('announcements', created);
}

async function alertParents({ gateway, add }: Filling, { id, teacher, organizationId, students }: Classroom) {
  const as: Identity = { id: teacher.id, role: 'TEACHER', organizationId };
  const weak = students.filter(({ parentIds }) => parentIds.length > 0).slice(0, WEAK_STUDENTS);
  for (const { id: studentId, fullName: studentName, parentIds } of weak) {
    const sourceEventId = `seed-${id}-weak-${studentId}`;
    const about = { studentId, studentName, topic: 'Khảo sát hàm số', parentIds };
    const body = { sourceService: 'analytics-service', sourceEventId, ...about } as const;
    const { created, replayed } = await gateway.client('weak topic').createWeakTopicAlert({ as, body });
    if (!replayed) add('alerts', created);
  }
}

/** Number of the teacher's jobs among which the one of an earlier run is recognized. */
const NEWEST = 100;

/**
 * Has the first teacher classify a paper and generate two questions, once for all runs. The routes would repeat a finished job and a
 * generation, so an earlier run is recognized by its job.
 */
export async function useModels({ gateway, school, served, progress, add, note }: Filling): Promise<void> {
  const [room] = school.classes;
  const [exam] = school.exams;
  if (room === undefined || exam === undefined) return;
  if (!served.has('classifier')) {
    note('The cluster serves no `classifier`, so no question is classified.');
    return;
  }
  const as: Identity = { id: room.teacher.id, role: 'TEACHER', organizationId: room.organizationId };
  const client = gateway.client('classify');
  const questionIds = exam.questions.map(({ questionId }) => questionId);
  const filters = { seed: school.prefix };
  progress.begin('classify a paper', questionIds.length);
  const { items } = await client.listJobs({ as, query: { limit: NEWEST } });
  if (items.some(({ scope }) => scope.filters?.seed === filters.seed)) {
    progress.end('done by an earlier run');
    return;
  }

  const body = { questionIds, fields: ['topic' as const, 'difficulty' as const], filters };
  const { job } = await client.createJob({ as, body, repeatInDoubt: true });
  add('classification jobs');
  const followed = await followJob(client, { owner: as, jobId: job.id }, (seen) =>
    progress.reach(seen.progress.processed),
  );
  for (const fault of followed.faults) note(`Classification: ${fault}`);
  progress.end(followed.job?.status ?? 'not finished');

  const wanted = { mode: 'fresh', questionType: 'SINGLE_CHOICE', difficulty: 'MEDIUM', count: 2 } as const;
  const about = { subject: 'Toán', gradeLevel: 12, topic: 'Tích phân' };
  const refused = await refusalOf(gateway.client('generate').previewGeneration({ as, body: { ...wanted, ...about } }));
  if (refused === null) add('generations');
  else note(`No questions were generated: ${refused.status} ${refused.code}`);
}

/** Students who work at the same time: saves take most of the time, and more would only lengthen the queues. */
const SITTING_AT_ONCE = 8;
/** Every third essay is graded; the others wait. */
const GRADES_EVERY = 3;

interface Seat {
  exam: SeedExam;
  student: Student;
  /** Position of the student in the class. */
  index: number;
}

/** Has every class sit its exams and leaves each exam in its state. Continues where an interrupted run ended. */
export async function sitExams(filling: Filling): Promise<void> {
  const { served, note, progress, school } = filling;
  if (!served.has('attempt')) {
    note('The cluster serves no `attempt`, so the school has no exams.');
    return;
  }
  const seats = school.exams.flatMap((exam) =>
    exam.classroom.students.map((student, index): Seat => ({ exam, student, index })),
  );
  await runPart(progress, 'exams', seats, (seat) => sit(filling, seat), SITTING_AT_ONCE);
  const released = school.exams.filter(({ state }) => state === 'released');
  await runPart(progress, 'release results', released, (exam) => release(filling, exam), 1);
}

async function sit(filling: Filling, seat: Seat): Promise<void> {
  const { gateway, add } = filling;
  const { exam, student, index } = seat;
  const { questions, state } = exam;
  const start = { exam: runtimeOf(exam), student, questions, key: `seed-${exam.id}-${student.id}` };
  const { attempt, created } = await startAttempt(gateway, start);
  if (created) add('attempts');

  const answers = answersOf(filling, seat);
  if (attempt.status === 'IN_PROGRESS') {
    const stored = new Set(attempt.answers.map(({ questionId }) => questionId));
    for (const [questionId, answer] of answers) {
      if (stored.has(questionId)) continue;
      const body = { questionId, answer, clientVersion: 0, sourceTabId: 'seed' };
      await gateway.client('save').saveAnswer({ attemptId: attempt.id, as: asStudent(student), body });
      add('answers');
    }
    if (state !== 'running') {
      await submitAttempt(gateway, { attemptId: attempt.id, student });
      add('submissions');
    }
  }

  const essay = questions.find(({ type }) => type === 'ESSAY');
  if (essay === undefined || index % GRADES_EVERY !== 0) return;
  const text = answers.get(essay.questionId)?.textAnswer ?? '';
  // A blank essay is graded already.
  if (text.trim() === '') return;
  const { applied } = await handOffGrade(gateway, attempt.id, madeUpHandoff(attempt.id, text, essay));
  if (applied === true) add('essay grades');
}

/** Returns the last answer to each question. In a running exam the second half of the paper is still blank. */
function answersOf({ school }: Filling, { exam, student }: Seat): Map<string, Answer> {
  const { questions, state } = exam;
  const paper = state === 'running' ? questions.slice(0, Math.ceil(questions.length / 2)) : questions;
  const steps = answerSheet(student, paper, `${school.seed}:${exam.id}`);
  return new Map(steps.flatMap((step) => (step.kind === 'save' ? [[step.questionId, step.answer] as const] : [])));
}

async function release({ gateway, add }: Filling, exam: SeedExam): Promise<void> {
  const { updatedAttempts } = await releaseResults(gateway, {
    sourceEventId: `seed-${exam.id}-released`,
    organizationId: exam.classroom.organizationId,
    examId: exam.id,
    releasedAt: new Date().toISOString(),
  });
  if ((updatedAttempts ?? 0) > 0) add('releases');
}
