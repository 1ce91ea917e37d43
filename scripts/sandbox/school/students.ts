import { type Random, seededRandom } from './random.ts';

export interface Student {
  id: string;
  fullName: string;
  studentCode: string;
  className: string;
  email: string;
  /** From 0 to 1: the higher, the likelier an answer is right. */
  skill: number;
  /** One or two parents; a few students have none on record. */
  parentIds: string[];
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

/** Returns `count` students; equal seeds return equal students. */
export function schoolYear(count: number, seed: string): Student[] {
  return Array.from({ length: count }, (_, index) => student(index + 1, seed));
}

/** Returns a random Vietnamese name. */
export function personName(random: Random): string {
  return nameOf(random.chance(0.5) ? GIRLS : BOYS, random);
}

function nameOf({ middle, given }: typeof GIRLS, random: Random): string {
  return `${random.pick(FAMILY)} ${random.pick(middle)} ${random.pick(given)}`;
}

function student(number: number, seed: string): Student {
  const random = seededRandom(`${seed}:student:${number}`);
  const names = random.chance(0.5) ? GIRLS : BOYS;
  const code = String(number).padStart(4, '0');
  const parents = random.chance(0.025) ? 0 : random.chance(0.6) ? 2 : 1;
  return {
    id: `hs-${code}`,
    fullName: nameOf(names, random),
    studentCode: `2025${code}`,
    className: CLASSES[number % CLASSES.length] ?? '12A1',
    email: `hs${code}@thpt-demo.edu.vn`,
    // The mean of three random numbers: few students are very good or very weak, most are in between.
    skill: 0.15 + 0.8 * ((random.fraction() + random.fraction() + random.fraction()) / 3),
    parentIds: ['ph', 'ph2'].slice(0, parents).map((prefix) => `${prefix}-${code}`),
  };
}
