import type { Random } from './random.ts';

const OPENING = 'Gọi cạnh đáy của bể là a (m), chiều cao là h (m), với a > 0, h > 0.';

/** The three steps of the solution. The rubric awards points for each; a draft has its right or its wrong version. */
const STEPS = [
  {
    right: 'Từ thể tích a²h = 4 suy ra h = 4/a². Diện tích vật liệu: S(a) = a² + 4ah = a² + 16/a.',
    wrong: 'Từ thể tích a²h = 4 suy ra h = 4/a. Diện tích vật liệu: S(a) = 2a² + 4ah = 2a² + 16.',
  },
  {
    right:
      "S'(a) = 2a − 16/a², S'(a) = 0 khi a³ = 8, tức a = 2. Lập bảng biến thiên, S đạt giá trị nhỏ nhất tại a = 2.",
    wrong: "S'(a) = 4a nên S đồng biến, chọn a nhỏ nhất có thể.",
  },
  {
    right: 'Vậy cạnh đáy bằng 2 m, chiều cao bằng 1 m và diện tích nhỏ nhất là 12 m².',
    wrong: 'Vậy bể có dạng hình lập phương cạnh 1,6 m.',
  },
] as const;

const ESSAY_CRITERIA = [
  { id: 'lap-ham', name: 'Lập hàm diện tích' },
  { id: 'cuc-tri', name: 'Tìm giá trị nhỏ nhất' },
  { id: 'ket-luan', name: 'Kết luận' },
] as const;

/** Returns a draft in which each step is right with probability `chance`. The lower the chance, the earlier the draft may end. */
export function essayDraft(chance: number, random: Random): string {
  const lines: string[] = [OPENING];
  for (const step of STEPS) {
    lines.push(random.chance(chance) ? step.right : step.wrong);
    if (random.chance((1 - chance) * 0.4)) break;
  }
  return lines.join('\n');
}

/** Returns a rubric with an equal share of the points for each step. */
export function essayRubric(maxScore: number) {
  return ESSAY_CRITERIA.map((criterion) => ({ ...criterion, maxScore: maxScore / ESSAY_CRITERIA.length }));
}

/** Grades an essay by the rubric, for a cluster without a classifier. A step earns all of its points or none. */
export function gradeEssay(text: string, maxScore: number) {
  const criteria = essayRubric(maxScore).map((criterion, index) => {
    const isRight = text.includes(STEPS[index]?.right ?? '');
    return { ...criterion, score: isRight ? criterion.maxScore : 0 };
  });
  const score = criteria.reduce((sum, criterion) => sum + criterion.score, 0);
  const missing = criteria
    .filter((criterion) => criterion.score === 0)
    .map((criterion) => criterion.name.toLowerCase());
  const feedback =
    missing.length === 0 ? 'Lời giải đầy đủ, trình bày rõ ràng.' : `Cần xem lại bước: ${missing.join(', ')}.`;
  return { score, criteria, feedback };
}
