import { type Random, seededRandom } from '#scripts/sandbox/random.ts';
import type { ExamRuntime, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { examRuntime, mathsPaper } from './paper.ts';

export type Student = ReturnType<typeof student>;
export type School = ReturnType<typeof schoolOf>;
export type Classroom = School['classes'][number];
export type SeedExam = School['exams'][number];

/**
 * Titles by the state in which an exam is left. `running`: answers are saved and nothing is submitted. `submitted`: graded, and hidden until
 * a release. `essays`: most essays wait for a grade. `graded`: visible at once. `released`: visible since the release.
 */
const TITLES = {
  running: 'Bài tập về nhà: ôn tập chương (đang làm)',
  submitted: 'Kiểm tra một tiết (chờ công bố)',
  essays: 'Kiểm tra tự luận (chờ chấm)',
  graded: 'Kiểm tra 15 phút (đã có điểm)',
  released: 'Thi giữa kỳ (đã công bố)',
} as const;
type ExamState = keyof typeof TITLES;
const STATES = Object.keys(TITLES) as ExamState[];
const CLASS_SIZE = 40;
/** The organization in which a cluster registers accounts, unless AUTH_DEFAULT_ORGANIZATION_ID names another. */
const HOME_ORGANIZATION = 'local';
/** A week, so that the exam still runs while a developer works with the school. */
const RUNNING_MINUTES = 7 * 24 * 60;
const LESSON_MINUTES = 45;

/** Returns a school that depends only on its seed and its number of students. */
export function schoolOf(seed: string, students: number) {
  // Begins every id, so that schools of other seeds do not meet.
  const prefix = `s${seed}`;
  const everyone = schoolYear(students, seed, prefix);
  const count = Math.ceil(students / CLASS_SIZE);
  const classes = Array.from({ length: count }, (_, index) => {
    const name = `${10 + (index % 3)}A${Math.floor(index / 3) + 1}`;
    const own = everyone.slice(index * CLASS_SIZE, (index + 1) * CLASS_SIZE);
    return {
      id: `${prefix}-lop-${name.toLowerCase()}`,
      name,
      // Every fourth class belongs to a second school.
      organizationId: index % 4 === 3 ? `${prefix}-le-loi` : HOME_ORGANIZATION,
      teacher: teacherOf(prefix, seed, index),
      students: own.map((student) => ({ ...student, className: name })),
    };
  });
  const exams = Array.from({ length: Math.max(STATES.length, count) }, (_, index) => {
    const [state, classroom] = [STATES[index % STATES.length], classes[index % count]];
    if (state === undefined || classroom === undefined) throw new Error('the school has no class');
    return {
      id: `${prefix}-thi-${String(index + 1).padStart(2, '0')}-${state}`,
      title: `${TITLES[state]}, lớp ${classroom.name}`,
      state,
      classroom,
      questions: shortPaper(state === 'essays'),
    };
  });
  return { prefix, seed, adminId: `${prefix}-qt-01`, classes, exams };
}

function teacherOf(prefix: string, seed: string, index: number) {
  const number = String(index + 1).padStart(2, '0');
  const random = seededRandom(`${seed}:teacher:${number}`);
  return {
    id: `${prefix}-gv-${number}`,
    fullName: nameOf(random.chance(0.5) ? GIRLS : BOYS, random),
    email: `gv${number}.${prefix}@giaovien.example`,
  };
}

/** Returns how the profile service reaches all persons, by their ids. Mail servers deliver nothing to names below `.example`. */
export function contactsOf({ prefix, adminId, classes }: School) {
  const contacts: Record<string, { email: string; name: string; locale: string }> = {};
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

const FAMILY = ['Nguyễn', 'Trần', 'Lê', 'Phạm', 'Hoàng', 'Huỳnh', 'Phan', 'Vũ', 'Võ', 'Đặng', 'Bùi', 'Đỗ', 'Hồ', 'Ngô'];
const GIRLS = {
  middle: ['Thị', 'Ngọc', 'Thu', 'Minh', 'Khánh', 'Phương', 'Bảo'],
  given: ['Anh', 'Linh', 'Hà', 'Trang', 'Mai', 'Ngân', 'Thảo', 'Vy', 'Hương', 'Quỳnh', 'Yến', 'Chi', 'Nhi', 'Uyên'],
};
const BOYS = {
  middle: ['Văn', 'Đức', 'Minh', 'Quang', 'Hữu', 'Gia', 'Tuấn'],
  given: ['Anh', 'Nam', 'Huy', 'Khoa', 'Long', 'Phúc', 'Bảo', 'Dũng', 'Sơn', 'Kiên', 'Thành', 'Quân', 'Đạt', 'Hiếu'],
};
const CLASSES = ['12A1', '12A2', '12A3', '12A4', '12A5', '12D1', '12D2', '12D3'];

/** Returns `count` students of the demo, or of the school with this prefix; equal seeds return equal students. */
export function schoolYear(count: number, seed: string, prefix?: string): Student[] {
  return Array.from({ length: count }, (_, index) => student(index + 1, seed, prefix));
}

function nameOf({ middle, given }: typeof GIRLS, random: Random): string {
  return `${random.pick(FAMILY)} ${random.pick(middle)} ${random.pick(given)}`;
}

function student(number: number, seed: string, prefix?: string) {
  const own = prefix === undefined ? '' : `${prefix}-`;
  const random = seededRandom(`${seed}:student:${number}`);
  const names = random.chance(0.5) ? GIRLS : BOYS;
  const code = String(number).padStart(4, '0');
  const parents = random.chance(0.025) ? 0 : random.chance(0.6) ? 2 : 1;
  return {
    id: `${own}hs-${code}`,
    fullName: nameOf(names, random),
    studentCode: `2025${code}`,
    className: CLASSES[number % CLASSES.length] ?? '12A1',
    email: prefix === undefined ? `hs${code}@thpt-demo.edu.vn` : `hs${code}.${prefix}@hocsinh.example`,
    // From 0 to 1: the higher, the likelier an answer is right. The mean of three random numbers: few students are very good or very weak, most are in between.
    skill: 0.15 + 0.8 * ((random.fraction() + random.fraction() + random.fraction()) / 3),
    /** One or two parents; a few students have none on record. */
    parentIds: ['ph', 'ph2'].slice(0, parents).map((kind) => `${own}${kind}-${code}`),
  };
}
