//! `random.Random` of CPython 3.11, draw for draw: the Mersenne Twister MT19937, its seeding from an
//! integer, and the methods that classic tools written in Python draw with. The twister itself is in
//! [`super::mt19937`].
//!
//! Matsumoto and Nishimura, "Mersenne Twister" (1998) with their initialisation of 2002; what CPython does
//! with the 32-bit words is from its `Modules/_randommodule.c` and `Lib/random.py`.

use super::Draw;
use super::mt19937::{Mt19937, WORDS};

/// `random.Random(seed)` for a non-negative integer below 2^64.
#[derive(Debug, Clone)]
pub struct Cpython {
    words: Mt19937,
}

impl Cpython {
    /// The generator that `random.Random(seed)` makes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        let mut state = linear_state(19_650_218);
        // The key is the seed's words, lowest first, without leading zeros but at least one.
        mix_key(&mut state, if key[1] == 0 { &key[..1] } else { &key });
        Self { words: Mt19937::from_state(state) }
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        self.words.next_u32()
    }

    /// `getrandbits(bits)`: the low words come first and the last is cut from its top.
    ///
    /// # Panics
    /// If `bits` is over 64; 0 bits are 0 and draw nothing, as in CPython.
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        assert!(bits <= 64, "getrandbits({bits})");
        match bits {
            0 => 0,
            1..=32 => u64::from(self.next_u32() >> (32 - bits)),
            _ => {
                let low = u64::from(self.next_u32());
                low | u64::from(self.next_u32() >> (64 - bits)) << 32
            }
        }
    }

    /// `random()`: a number in `0.0..1.0` of 53 random bits.
    pub fn random(&mut self) -> f64 {
        let high = u64::from(self.next_u32() >> 5);
        let low = u64::from(self.next_u32() >> 6);
        (high << 26 | low) as f64 / (1_u64 << 53) as f64
    }
}

impl Draw for Cpython {
    /// `_randbelow`: as many bits as the bound has, drawn again until they are under it. Even a bound of 1
    /// draws, until a 0 comes.
    fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let bits = u64::BITS - bound.leading_zeros();
        loop {
            let drawn = self.getrandbits(bits);
            if drawn < bound {
                return drawn;
            }
        }
    }
}

fn linear_state(seed: u32) -> [u32; WORDS] {
    let mut state = [0; WORDS];
    state[0] = seed;
    for index in 1..WORDS {
        let previous: u32 = state[index - 1];
        state[index] =
            (previous ^ (previous >> 30)).wrapping_mul(1_812_433_253).wrapping_add(index as u32);
    }
    state
}

fn mix_key(state: &mut [u32; WORDS], key: &[u32]) {
    let mut place = 1;
    for step in 0..WORDS.max(key.len()) {
        let from_key = step % key.len();
        mix(state, place, 1_664_525);
        state[place] = state[place].wrapping_add(key[from_key]).wrapping_add(from_key as u32);
        place = next_place(state, place);
    }
    for _ in 1..WORDS {
        mix(state, place, 1_566_083_941);
        state[place] = state[place].wrapping_sub(place as u32);
        place = next_place(state, place);
    }
    state[0] = 0x8000_0000;
}

fn mix(state: &mut [u32; WORDS], place: usize, multiplier: u32) {
    let previous = state[place - 1];
    state[place] ^= (previous ^ (previous >> 30)).wrapping_mul(multiplier);
}

fn next_place(state: &mut [u32; WORDS], place: usize) -> usize {
    if place + 1 < WORDS {
        return place + 1;
    }
    state[0] = state[WORDS - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CPython 3.11.7 answers after `random.Random(seed)`.
    struct Vector {
        seed: u64,
        words: [u32; 4],
        below: [u64; 13],
        randint: [u64; 5],
        shuffled: [u8; 20],
        choices: [usize; 8],
        random: [f64; 3],
        bits: [u64; 7],
    }

    const BOUNDS: [u64; 13] =
        [1, 2, 3, 7, 10, 100, 1000, 3263, 99_901, 1 << 32, (1 << 32) + 1, 1 << 40, (1 << 63) + 5];

    const VECTORS: [Vector; 7] = [
        Vector {
            seed: 0,
            words: [3_626_764_237, 1_654_615_998, 3_255_389_356, 3_823_568_514],
            below: [
                0,
                1,
                0,
                2,
                8,
                62,
                414,
                3_210,
                39_755,
                4_156_669_319,
                598_176_026,
                553_189_221_793,
                5_721_212_930_748_269_353,
            ],
            randint: [50_594, 99_446, 55_225, 5_406, 34_036],
            shuffled: [10, 18, 16, 14, 0, 17, 11, 2, 3, 9, 5, 7, 4, 19, 6, 15, 8, 1, 13, 12],
            choices: [6, 3, 6, 3, 0, 2, 4, 3],
            random: [0.844_421_851_525_048_1, 0.757_954_402_940_302_5, 0.420_571_580_830_845],
            bits: [
                1,
                12,
                1_627_694_678,
                3_823_568_514,
                72_877_178_957_620,
                4_715_676_943_270_851_834,
                7_469_716_379_221_213_669,
            ],
        },
        Vector {
            seed: 1,
            words: [577_090_037, 2_444_712_010, 3_639_700_191, 3_445_702_192],
            below: [
                0,
                0,
                1,
                0,
                7,
                97,
                460,
                1_934,
                85_405,
                901_749_037,
                2_095_328_386,
                950_861_988_493,
                38_849_760_603_697_497,
            ],
            randint: [17_711, 74_706, 8_371, 33_532, 15_555],
            shuffled: [11, 5, 17, 19, 9, 0, 16, 1, 15, 6, 10, 13, 14, 12, 7, 3, 8, 2, 18, 4],
            choices: [1, 4, 6, 6, 6, 0, 2, 0],
            random: [0.134_364_244_112_401_22, 0.847_433_736_937_232_7, 0.763_774_618_976_614],
            bits: [
                0,
                18,
                1_819_850_095,
                7_740_669_488,
                71_794_944_361_681,
                4_569_582_132_408_609_673,
                8_291_646_586_825_371_460,
            ],
        },
        Vector {
            seed: 555,
            words: [830_411_535, 1_179_161_746, 691_729_750, 550_506_513],
            below: [
                0,
                1,
                0,
                1,
                8,
                90,
                941,
                437,
                20_106,
                1_097_036_149,
                1_942_795_727,
                278_491_480_505,
                640_909_517_925_172_418,
            ],
            randint: [25_442, 36_085, 21_209, 16_900, 73_660],
            shuffled: [11, 14, 17, 10, 9, 1, 12, 0, 7, 13, 18, 15, 19, 16, 2, 3, 4, 5, 8, 6],
            choices: [1, 2, 1, 1, 4, 5, 0, 1],
            random: [0.193_345_250_744_707_76, 0.161_055_878_759_732_7, 0.561_222_543_632_600_6],
            bits: [
                0,
                8,
                345_864_875,
                4_845_473_809,
                258_912_262_589_245,
                1_414_839_339_603_977_814,
                7_595_647_284_661_154_165,
            ],
        },
        Vector {
            seed: 4_294_967_295,
            words: [2_728_839_433, 2_661_025_012, 872_737_089, 924_893_097],
            below: [
                0,
                0,
                2,
                4,
                4,
                77,
                348,
                1_561,
                88_127,
                1_201_118_819,
                3_854_456_112,
                139_201_789_749,
                8_804_822_413_546_709_706,
            ],
            randint: [83_377, 81_308, 26_733, 28_325, 79_708],
            shuffled: [8, 2, 3, 14, 11, 1, 0, 12, 7, 13, 4, 10, 17, 5, 15, 9, 16, 18, 6, 19],
            choices: [5, 4, 1, 1, 4, 4, 2, 4],
            random: [0.635_357_444_134_117_3, 0.203_199_939_544_077_56, 0.607_366_603_034_718_8],
            bits: [
                1,
                19,
                436_368_544,
                5_219_860_393,
                82_001_759_296_980,
                3_136_203_002_078_136_571,
                7_030_353_235_611_988_735,
            ],
        },
        Vector {
            seed: 4_294_967_296,
            words: [485_306_839, 1_508_871_100, 1_794_561_286, 4_014_597_330],
            below: [
                0,
                1,
                1,
                0,
                0,
                78,
                897,
                3_122,
                43_451,
                4_272_311_653,
                60_122_280,
                752_968_576_454,
                7_034_002_934_646_918_198,
            ],
            randint: [14_910, 46_147, 54_865, 2_285, 3_091],
            shuffled: [6, 18, 1, 14, 4, 19, 10, 2, 15, 7, 8, 5, 17, 12, 9, 16, 0, 13, 11, 3],
            choices: [0, 2, 3, 0, 0, 4, 6, 6],
            random: [0.112_994_300_956_364_09, 0.417_828_864_862_928_36, 0.016_676_366_499_229_1],
            bits: [
                0,
                11,
                897_280_643,
                4_014_597_330,
                172_181_041_948_429,
                7_430_782_158_761_337_747,
                6_115_302_124_401_738_593,
            ],
        },
        Vector {
            seed: 81_985_529_216_486_895,
            words: [3_851_240_871, 1_496_727_489, 1_688_815_724, 1_191_980_605],
            below: [
                0,
                1,
                1,
                6,
                8,
                24,
                761,
                1_369,
                97_097,
                3_027_437_626,
                296_164_611,
                846_529_274_501,
                7_366_377_251_866_963_372,
            ],
            randint: [45_776, 51_638, 36_476, 67_015, 25_496],
            shuffled: [7, 18, 3, 15, 0, 10, 4, 9, 13, 1, 17, 2, 14, 5, 19, 6, 16, 8, 12, 11],
            choices: [2, 3, 2, 6, 4, 1, 5, 2],
            random: [0.896_686_891_827_613_3, 0.393_208_051_305_484_75, 0.862_810_205_746_618_5],
            bits: [
                1,
                11,
                844_407_862,
                5_486_947_901,
                54_539_687_407_141,
                3_084_184_798_334_397_097,
                3_404_233_842_685_682_042,
            ],
        },
        Vector {
            seed: 18_446_744_073_709_551_615,
            words: [93_740_670, 1_068_495_656, 1_452_108_352, 2_657_516_307],
            below: [
                0,
                0,
                1,
                4,
                3,
                58,
                629,
                389,
                48_633,
                2_286_593_340,
                4_079_183_629,
                724_994_968_141,
                4_835_413_538_421_939_983,
            ],
            randint: [2_960, 32_707, 44_414, 81_200, 27_883],
            shuffled: [16, 4, 13, 15, 2, 17, 12, 18, 8, 3, 19, 11, 5, 1, 9, 14, 6, 10, 7, 0],
            choices: [0, 1, 2, 4, 1, 3, 4, 0],
            random: [0.021_825_695_401_270_107, 0.338_095_326_861_375_8, 0.211_967_486_560_820_65],
            bits: [
                0,
                7,
                726_054_176,
                2_657_516_307,
                173_140_680_415_826,
                8_481_545_260_127_949_182,
                6_844_557_653_115_116_486,
            ],
        },
    ];

    #[test]
    fn draws_equal_those_of_cpython() {
        for vector in &VECTORS {
            let fresh = || Cpython::new(vector.seed);
            let seed = vector.seed;
            let mut rng = fresh();
            assert_eq!(vector.words.map(|_| rng.next_u32()), vector.words, "words of {seed}");
            let mut rng = fresh();
            assert_eq!(BOUNDS.map(|bound| rng.below(bound)), vector.below, "below of {seed}");
            let mut rng = fresh();
            assert_eq!(
                vector.randint.map(|_| rng.randint(100, 100_000)),
                vector.randint,
                "randint of {seed}"
            );
            let mut items: [u8; 20] = std::array::from_fn(|index| index as u8);
            fresh().shuffle(&mut items);
            assert_eq!(items, vector.shuffled, "shuffle of {seed}");
            let mut rng = fresh();
            assert_eq!(
                vector.choices.map(|_| rng.choice_index(7)),
                vector.choices,
                "choice of {seed}"
            );
            let mut rng = fresh();
            assert_eq!(vector.random.map(|_| rng.random()), vector.random, "random of {seed}");
            let mut rng = fresh();
            assert_eq!(
                [1, 5, 31, 33, 48, 63, 64].map(|bits| rng.getrandbits(bits)),
                vector.bits,
                "bits of {seed}"
            );
        }
    }

    #[test]
    fn draws_equal_those_of_cpython_after_many_regenerations() {
        let mut rng = Cpython::new(555);
        for _ in 0..100_000 {
            rng.next_u32();
        }
        assert_eq!(rng.next_u32(), 4_175_222_313);
        assert_eq!(rng.random(), 0.729_533_203_694_104_5);
    }

    #[test]
    fn the_shuffle_of_compilebench_equals_that_of_cpython() {
        let mut order: Vec<u32> = (0..3263).collect();
        let mut rng = Cpython::new(555);
        rng.shuffle(&mut order);
        assert_eq!(order[..8], [2645, 1333, 1452, 2636, 1392, 1583, 988, 745]);
        assert_eq!(order[3255..], [628, 437, 2903, 2298, 525, 659, 1124, 791]);
        let hash = order
            .iter()
            .flat_map(|index| index.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        assert_eq!(hash, 0x37b2_de9e_72d8_d6b6);
        assert_eq!(rng.next_u32(), 4_245_408_720);
    }

    #[test]
    fn nothing_to_draw_draws_nothing() {
        let mut rng = Cpython::new(555);
        assert_eq!((rng.below(0), rng.getrandbits(0)), (0, 0));
        assert_eq!(rng.next_u32(), 830_411_535);
    }
}
