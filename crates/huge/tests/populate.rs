//! Memory that is made real at once.

use wordline_huge::Array;

#[test]
fn populated_memory_holds_what_it_held() {
    let mut a = Array::<u32>::zeroed(12 << 20);
    a[5 << 20] = 7;
    a.populate();
    assert!(a.iter().enumerate().all(|(i, &n)| n == if i == 5 << 20 { 7 } else { 0 }));
}
