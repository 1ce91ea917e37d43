/** A question with four options in printed order, and the letter of the right one. */
export interface ChoiceData {
  text: string;
  options: readonly [string, string, string, string];
  correct: 'A' | 'B' | 'C' | 'D';
}

/** Part I: one right option of four. */
export const CHOICES: readonly ChoiceData[] = [
  { text: 'Nghiệm của phương trình 2ˣ⁺¹ = 16 là', options: ['x = 2', 'x = 3', 'x = 4', 'x = 5'], correct: 'B' },
  {
    text: 'Họ tất cả các nguyên hàm của hàm số f(x) = 3x² + 2x là',
    options: ['x³ + x² + C', '6x + 2 + C', 'x³ + 2x² + C', '3x³ + 2x² + C'],
    correct: 'A',
  },
  {
    text: 'Cho cấp số cộng (uₙ) có u₁ = 3 và công sai d = 4. Số hạng u₁₀ bằng',
    options: ['36', '39', '40', '43'],
    correct: 'B',
  },
  {
    text: 'Thể tích của khối chóp có diện tích đáy bằng 12 và chiều cao bằng 5 là',
    options: ['60', '30', '20', '15'],
    correct: 'C',
  },
  {
    text: 'Tập xác định của hàm số y = log₂(x − 3) là',
    options: ['[3; +∞)', '(−∞; 3)', 'ℝ \\ {3}', '(3; +∞)'],
    correct: 'D',
  },
  {
    text: 'Trong không gian Oxyz, mặt phẳng (P): 2x − y + 3z − 5 = 0 có một vectơ pháp tuyến là',
    options: ['n = (2; 1; 3)', 'n = (2; −1; 3)', 'n = (−1; 3; −5)', 'n = (2; −1; −5)'],
    correct: 'B',
  },
  {
    text: 'Tiệm cận ngang của đồ thị hàm số y = (2x − 1)/(x + 3) là đường thẳng',
    options: ['y = 2', 'y = −3', 'x = 2', 'x = −3'],
    correct: 'A',
  },
  { text: 'Tích phân ∫₁³ (2x + 1) dx bằng', options: ['8', '9', '10', '12'], correct: 'C' },
  {
    text: 'Giá trị lớn nhất của hàm số y = x³ − 3x + 1 trên đoạn [0; 2] bằng',
    options: ['1', '3', '−1', '5'],
    correct: 'B',
  },
  {
    text: 'Hàm số y = x³ − 3x² + 2 đồng biến trên khoảng nào dưới đây?',
    options: ['(0; 2)', '(−1; 1)', '(2; +∞)', '(1; 3)'],
    correct: 'C',
  },
  {
    text: 'Một hộp có 4 viên bi đỏ và 6 viên bi xanh. Lấy ngẫu nhiên đồng thời 2 viên. Xác suất để cả hai viên đều đỏ là',
    options: ['2/5', '4/25', '2/15', '1/3'],
    correct: 'C',
  },
  {
    text: 'Trong không gian Oxyz, độ dài của vectơ a = (1; 2; −2) bằng',
    options: ['3', '9', '√5', '5'],
    correct: 'A',
  },
  {
    text: 'Trong không gian Oxyz, mặt cầu tâm I(1; −2; 3), bán kính R = 4 có phương trình là',
    options: [
      '(x + 1)² + (y − 2)² + (z + 3)² = 16',
      '(x − 1)² + (y + 2)² + (z − 3)² = 4',
      '(x + 1)² + (y − 2)² + (z + 3)² = 4',
      '(x − 1)² + (y + 2)² + (z − 3)² = 16',
    ],
    correct: 'D',
  },
  { text: 'Giá trị của biểu thức log₃ 27 + log₃ (1/9) bằng', options: ['1', '5', '−1', '6'], correct: 'A' },
  {
    text: 'Tập nghiệm của bất phương trình (1/2)ˣ > 8 là',
    options: ['(−3; +∞)', '(3; +∞)', '(−∞; 3)', '(−∞; −3)'],
    correct: 'D',
  },
  { text: 'Thể tích của khối lập phương cạnh bằng 3 là', options: ['9', '18', '27', '54'], correct: 'C' },
  {
    text:
      'Thời gian tự học mỗi tuần (giờ) của 30 học sinh được ghép thành các nhóm [0; 2), [2; 4), [4; 6), [6; 8), [8; 10) ' +
      'với tần số lần lượt là 3, 8, 12, 5, 2. Khoảng biến thiên của mẫu số liệu ghép nhóm này bằng',
    options: ['8', '10', '9', '12'],
    correct: 'B',
  },
  {
    text: 'Đạo hàm của hàm số y = sin 2x là',
    options: ['cos 2x', '−2cos 2x', '2cos 2x', '2sin 2x'],
    correct: 'C',
  },
  {
    text: 'Cho hai biến cố độc lập A và B với P(A) = 0,4 và P(B) = 0,5. Xác suất P(AB) bằng',
    options: ['0,9', '0,2', '0,1', '0,7'],
    correct: 'B',
  },
  {
    text: 'Diện tích hình phẳng giới hạn bởi đồ thị y = x², trục hoành và hai đường thẳng x = 0, x = 3 bằng',
    options: ['3', '27', '9', '6'],
    correct: 'C',
  },
  {
    text: 'Trong không gian Oxyz, đường thẳng đi qua A(1; 0; 2) và có vectơ chỉ phương u = (2; −1; 3) có phương trình là',
    options: [
      '(x − 1)/2 = y/(−1) = (z − 2)/3',
      '(x + 1)/2 = y/(−1) = (z + 2)/3',
      '(x − 2)/1 = (y + 1)/0 = (z − 3)/2',
      '(x − 1)/2 = y/1 = (z − 2)/3',
    ],
    correct: 'A',
  },
  {
    text: 'Cho hình chóp S.ABCD có đáy ABCD là hình vuông và SA vuông góc với mặt đáy. Đường thẳng BC vuông góc với mặt phẳng nào?',
    options: ['(SCD)', '(SBD)', '(SAC)', '(SAB)'],
    correct: 'D',
  },
  {
    text: 'Nghiệm của phương trình cos x = 1/2 là',
    options: ['x = ±π/6 + k2π, k ∈ ℤ', 'x = ±π/3 + k2π, k ∈ ℤ', 'x = π/3 + kπ, k ∈ ℤ', 'x = ±2π/3 + k2π, k ∈ ℤ'],
    correct: 'B',
  },
  {
    text: 'Cho cấp số nhân (uₙ) có u₁ = 2 và công bội q = 3. Số hạng u₄ bằng',
    options: ['18', '24', '54', '162'],
    correct: 'C',
  },
  {
    text: 'Trong không gian Oxyz, cho A(1; 2; 3) và B(3; 0; 1). Toạ độ của vectơ AB là',
    options: ['(2; −2; −2)', '(4; 2; 4)', '(−2; 2; 2)', '(2; 2; −2)'],
    correct: 'A',
  },
  {
    text: "Cho hàm số f(x) có đạo hàm f'(x) = x(x − 1)²(x + 2) với mọi x ∈ ℝ. Số điểm cực trị của hàm số là",
    options: ['1', '2', '3', '0'],
    correct: 'B',
  },
  {
    text: 'Cho hai biến cố A, B với P(B) = 0,6 và P(AB) = 0,3. Xác suất có điều kiện P(A | B) bằng',
    options: ['0,18', '0,3', '0,5', '0,9'],
    correct: 'C',
  },
  { text: 'Cho log₂ 5 = a. Khi đó log₄ 25 bằng', options: ['a', '2a', 'a/2', 'a²'], correct: 'A' },
];
