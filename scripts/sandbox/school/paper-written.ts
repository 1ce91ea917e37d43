/** A common stem and four statements that are true or false. */
export interface TrueFalseData {
  text: string;
  statements: readonly [Judged, Judged, Judged, Judged];
}

type Judged = readonly [statement: string, value: boolean];

/** A question whose answer is one number, as a student writes it. `tolerance` is absolute; absent = exact. */
export interface NumericData {
  text: string;
  answer: string;
  tolerance?: number;
}

export interface EssayData {
  text: string;
}

/** Part II: groups of four statements, each true or false. */
export const TRUE_FALSE_GROUPS: readonly TrueFalseData[] = [
  {
    text: 'Cho hàm số y = x³ − 3x + 2.',
    statements: [
      ["Đạo hàm của hàm số là y' = 3x² − 3.", true],
      ['Hàm số nghịch biến trên khoảng (−1; 1).', true],
      ['Giá trị cực đại của hàm số bằng 0.', false],
      ['Đồ thị hàm số cắt trục hoành tại ba điểm phân biệt.', false],
    ],
  },
  {
    text: 'Một chất điểm chuyển động thẳng với vận tốc v(t) = 3t² − 12t + 9 (m/s), t ≥ 0 tính bằng giây.',
    statements: [
      ['Vận tốc ban đầu của chất điểm bằng 9 m/s.', true],
      ['Vận tốc của chất điểm bằng 0 tại đúng hai thời điểm t = 1 và t = 3.', true],
      ['Gia tốc của chất điểm tại thời điểm t = 2 bằng 3 m/s².', false],
      ['Quãng đường chất điểm đi được trong 3 giây đầu tiên bằng 8 m.', true],
    ],
  },
  {
    text: 'Trong không gian Oxyz, cho điểm A(1; 1; 0) và mặt phẳng (P): x + 2y + 2z − 9 = 0.',
    statements: [
      ['Vectơ n = (1; 2; 2) là một vectơ pháp tuyến của (P).', true],
      ['Điểm A thuộc mặt phẳng (P).', false],
      ['Khoảng cách từ A đến (P) bằng 2.', true],
      ['Mặt cầu tâm A tiếp xúc với (P) có bán kính bằng 4.', false],
    ],
  },
  {
    text:
      'Một trường có 60% học sinh là nữ. Trong số học sinh nữ có 25% tham gia câu lạc bộ Toán, trong số học sinh nam có 40%. ' +
      'Chọn ngẫu nhiên một học sinh của trường.',
    statements: [
      ['Xác suất chọn được một học sinh nam bằng 0,4.', true],
      ['Xác suất chọn được một học sinh nữ tham gia câu lạc bộ Toán bằng 0,15.', true],
      ['Xác suất chọn được một học sinh tham gia câu lạc bộ Toán bằng 0,325.', false],
      ['Biết học sinh được chọn tham gia câu lạc bộ Toán, xác suất đó là học sinh nữ nhỏ hơn 0,5.', true],
    ],
  },
];

/** Part III: questions whose answer is one number. */
export const NUMERIC_QUESTIONS: readonly NumericData[] = [
  { text: 'Cho hình chóp tứ giác đều có cạnh đáy bằng 6 và chiều cao bằng 4. Tính thể tích khối chóp.', answer: '48' },
  {
    text: 'Một tổ có 5 học sinh nam và 4 học sinh nữ. Có bao nhiêu cách chọn 3 học sinh trong đó có đúng 2 nam?',
    answer: '40',
  },
  {
    text:
      'Từ một tấm bìa hình vuông cạnh 12 dm, người ta cắt bốn góc bốn hình vuông bằng nhau rồi gập thành chiếc hộp không nắp. ' +
      'Thể tích lớn nhất của hộp là bao nhiêu dm³?',
    answer: '128',
  },
  {
    text: 'Tính diện tích hình phẳng giới hạn bởi đồ thị y = 4x − x² và trục hoành (kết quả làm tròn đến hàng phần mười).',
    answer: '10,7',
  },
  {
    text:
      'Gửi ngân hàng 100 triệu đồng với lãi suất 6%/năm theo thể thức lãi kép. Sau 3 năm, tổng số tiền nhận được là ' +
      'bao nhiêu triệu đồng (kết quả làm tròn đến hàng phần mười)?',
    answer: '119,1',
  },
  {
    text:
      'Trong không gian Oxyz, tính khoảng cách từ A(1; 2; 3) đến mặt phẳng 2x − 2y + z + 7 = 0 ' +
      '(kết quả làm tròn đến hàng phần trăm).',
    answer: '2,67',
    tolerance: 0.005,
  },
  {
    text:
      'Hai xạ thủ bắn độc lập vào một mục tiêu với xác suất trúng lần lượt là 0,7 và 0,8. ' +
      'Tính xác suất để có ít nhất một người bắn trúng.',
    answer: '0,94',
  },
];

/** Part IV: one essay. */
export const ESSAY: EssayData = {
  text:
    'Người ta cần làm một bể chứa nước hình hộp chữ nhật không nắp, đáy hình vuông, thể tích 4 m³. ' +
    'Hãy xác định cạnh đáy và chiều cao của bể để diện tích vật liệu cần dùng là nhỏ nhất, và tính diện tích đó. ' +
    'Trình bày đầy đủ lời giải.',
};
