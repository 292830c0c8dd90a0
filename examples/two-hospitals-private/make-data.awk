# Made-up patients: the same ones on every machine. Usage: awk -v party=alice -f make-data.awk > alice.csv
# Four columns that share a common cause (correlation about .4), and the length of a stay that depends on all of them.
function uniform() { seed = (seed * 16807) % 2147483647; return seed / 2147483647 }
function normal(   i, sum) { sum = -6; for (i = 0; i < 12; i++) sum += uniform(); return sum }
function cell(value, low, high) { return value < low ? low : value > high ? high : value }
BEGIN {
    seed = 20260601
    print party == "alice" ? "id,age,pressure,stay" : "id,creatinine,glucose,stay"
    for (row = 1; row <= 10000; row++) {
        common = 0.63 * normal()
        for (j = 1; j <= 4; j++) z[j] = common + 0.77 * normal()
        stay = cell(10 + 1.5 * z[1] - 0.8 * z[2] + 1.2 * z[3] + 0.5 * z[4] + 1.5 * normal(), 0, 20)
        age = cell(55 + 12 * z[1], 20, 90); pressure = cell(140 + 20 * z[2], 80, 200)
        creatinine = cell(1.4 + 0.33 * z[3], 0.4, 2.4); glucose = cell(140 + 26 * z[4], 60, 220)
        if (party == "alice") printf "p%05d,%.0f,%.0f,%.2f\n", row, age, pressure, stay
        else printf "p%05d,%.2f,%.0f,%.2f\n", row, creatinine, glucose, stay
    }
}
