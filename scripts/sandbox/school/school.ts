import type { ExamRuntime, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { examRuntime, mathsPaper } from './paper.ts';
import { seededRandom } from './random.ts';
import { personName, type Student, schoolYear } from './students.ts';

/** A school that depends only on its seed and its number of students. */
export interface School {
  /** Begins every id, so that schools of other seeds do not meet. */
  prefix: string;
  seed: string;
  /** The administrator, for calls that require ADMIN. */
  adminId: string;
  organizations: readonly { id: string; name: string }[];
  classes: readonly Classroom[];
  exams: readonly SeedExam[];
}

export interface Classroom {
  id: string;
  name: string;
  organizationId: string;
  teacher: Teacher;
  students: Student[];
}

export interface Teacher {
  id: string;
  fullName: string;
  email: string;
}

/**
 * State in which an exam is left. `running`: answers are saved and nothing is submitted. `submitted`: graded, and hidden until a release.
 * `essays`: most essays wait for a grade. `graded`: visible at once. `released`: visible since the release.
 */
export type ExamState = 'running' | 'submitted' | 'essays' | 'graded' | 'released';

/** One exam of one class. */
export interface SeedExam {
  id: string;
  title: string;
  state: ExamState;
  classroom: Classroom;
  questions: readonly StartQuestion[];
}

const STATES: readonly ExamState[] = ['running', 'submitted', 'essays', 'graded', 'released'];
const TITLES: Readonly<Record<ExamState, string>> = {
  running: 'Bài tập về nhà: ôn tập chương (đang làm)',
  submitted: 'Kiểm tra một tiết (chờ công bố)',
  essays: 'Kiểm tra tự luận (chờ chấm)',
  graded: 'Kiểm tra 15 phút (đã có điểm)',
  released: 'Thi giữa kỳ (đã công bố)',
};
const CLASS_SIZE = 40;
/** The organization in which a cluster registers accounts, unless AUTH_DEFAULT_ORGANIZATION_ID names another. */
const HOME_ORGANIZATION = 'local';
/** A week, so that the exam still runs while a developer works with the school. */
const RUNNING_MINUTES = 7 * 24 * 60;
const LESSON_MINUTES = 45;

/** Returns the school of a seed. */
export function schoolOf(seed: string, students: number): School {
  const prefix = `s${seed}`;
  const organizations = [
    { id: HOME_ORGANIZATION, name: 'THPT Nguyễn Trãi' },
    { id: `${prefix}-le-loi`, name: 'THPT Lê Lợi' },
  ];
  const everyone = schoolYear(students, seed).map((student) => ofSchool(student, prefix));
  const count = Math.ceil(students / CLASS_SIZE);
  const classes = Array.from({ length: count }, (_, index) =>
    classroom(
      { prefix, seed, index },
      {
        // Every fourth class belongs to the second school.
        organizationId: organizations[index % 4 === 3 ? 1 : 0]?.id ?? HOME_ORGANIZATION,
        students: everyone.slice(index * CLASS_SIZE, (index + 1) * CLASS_SIZE),
      },
    ),
  );
  const exams = Array.from({ length: Math.max(STATES.length, count) }, (_, index) => {
    const [state, room] = [STATES[index % STATES.length], classes[index % count]];
    if (state === undefined || room === undefined) throw new Error('the school has no class');
    return examOf(prefix, index, state, room);
  });
  return { prefix, seed, adminId: `${prefix}-qt-01`, organizations, classes, exams };
}

function ofSchool(student: Student, prefix: string): Student {
  const [local = ''] = student.email.split('@');
  return {
    ...student,
    id: `${prefix}-${student.id}`,
    email: `${local}.${prefix}@hocsinh.example`,
    parentIds: student.parentIds.map((id) => `${prefix}-${id}`),
  };
}

function classroom(
  { prefix, seed, index }: { prefix: string; seed: string; index: number },
  { organizationId, students }: { organizationId: string; students: Student[] },
): Classroom {
  const name = `${10 + (index % 3)}A${Math.floor(index / 3) + 1}`;
  const number = String(index + 1).padStart(2, '0');
  const teacher = {
    id: `${prefix}-gv-${number}`,
    fullName: personName(seededRandom(`${seed}:teacher:${number}`)),
    email: `gv${number}.${prefix}@giaovien.example`,
  };
  const own = students.map((student) => ({ ...student, className: name }));
  return { id: `${prefix}-lop-${name.toLowerCase()}`, name, organizationId, teacher, students: own };
}

function examOf(prefix: string, index: number, state: ExamState, room: Classroom): SeedExam {
  return {
    id: `${prefix}-thi-${String(index + 1).padStart(2, '0')}-${state}`,
    title: `${TITLES[state]}, lớp ${room.name}`,
    state,
    classroom: room,
    questions: shortPaper(state === 'essays'),
  };
}

/** How the profile service reaches a person. */
export interface Contact {
  email: string;
  name: string;
  locale: string;
}

/** Returns the contacts of all persons by their ids. Mail servers deliver nothing to names below `.example`. */
export function contactsOf({ prefix, adminId, classes }: School): Record<string, Contact> {
  const contacts: Record<string, Contact> = {};
  const add = (id: string, email: string, name: string) => {
    contacts[id] = { email, name, locale: 'vi' };
  };
  add(adminId, `qt01.${prefix}@nhatruong.example`, 'Quản trị viên');
  for (const { teacher, students } of classes) {
    add(teacher.id, teacher.email, teacher.fullName);
    for (const { id, email, fullName, parentIds } of students) {
      add(id, email, fullName);
      for (const [index, parentId] of parentIds.entries())
        add(parentId, parentEmail(email, index), parentName(fullName));
    }
  }
  return contacts;
}

/** Returns the address of a parent of the student with this address. */
export function parentEmail(email: string, index = 0): string {
  const address = email.replace('@hocsinh.', '@phuhuynh.');
  return index === 0 ? address : `ph${index + 1}.${address}`;
}

export function parentName(fullName: string): string {
  return `Phụ huynh em ${fullName}`;
}

/** Returns the exam as the exam service would describe it now: accounts change the ids of teachers. */
export function runtimeOf({ id, title, state, classroom: room }: SeedExam): ExamRuntime {
  return examRuntime({
    id,
    organizationId: room.organizationId,
    title,
    gradeLevel: room.name.slice(0, 2),
    durationMinutes: state === 'running' ? RUNNING_MINUTES : LESSON_MINUTES,
    showResultMode: state === 'graded' ? 'IMMEDIATE' : 'MANUAL',
    createdById: room.teacher.id,
    assignedClassroomIds: [room.id],
  });
}

/** Returns a short paper of the demo's questions, so that a school is filled within a minute. */
function shortPaper(hasEssay: boolean): StartQuestion[] {
  const paper = mathsPaper();
  const some = (type: string, count: number) => paper.filter((question) => question.type === type).slice(0, count);
  return [
    ...some('SINGLE_CHOICE', 4),
    ...some('TRUE_FALSE_GROUP', 1),
    ...some('NUMERIC', 2),
    ...(hasEssay ? some('ESSAY', 1) : []),
  ];
}
