-- How a key is folded: every character to its simple lower case, white space
-- trimmed at the ends and collapsed to one space inside.
--
-- Written by scripts/make_character_tables.py; do not edit by hand. The letters
-- are spelled out because lower() asks the database's locale: with lc_ctype C it
-- leaves É alone, and elsewhere the answer changes with the release of the C
-- library. Keys folded on one server must be found on any other, and the Python
-- twin, graphalgo.engine.folding.fold_key, folds by the same table.
--
-- translate() compares each character with each letter of its list, so a list is
-- handed over only where the text touches the list's block; an empty list makes
-- translate() return the text as it is. A text of ASCII alone needs no list.
-- Every regular expression is collated "C", where a range is one of code points.

create or replace function aiq.fold_key(p_key text)
returns text
language sql
immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $fold$
  select btrim(regexp_replace(
    case when octet_length(p_key) = char_length(p_key) then lower(p_key collate "C")
    else
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      translate(
      lower(p_key collate "C"),
      -- Latin-1
      case when p_key collate "C" ~ E'[\u00c0-\u00de]' then
        E'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞ'
      else '' end,
        E'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþ'),
      -- Latin Extended-A
      case when p_key collate "C" ~ E'[\u0100-\u017f]' then
        E'ĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽ'
      else '' end,
        E'āăąćĉċčďđēĕėęěĝğġģĥħĩīĭįiĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿźżž'),
      -- Latin Extended-B
      case when p_key collate "C" ~ E'[\u0180-\u024f]' then
        E'ƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƠƢƤƦƧƩƬƮƯƱƲƳƵƷƸƼǄǅǇǈǊǋǍǏǑǓǕǗǙǛǞǠǢǤǦǨǪǬǮǱǲǴǶǷǸǺǼǾȀȂȄȆȈȊȌȎȐȒȔȖȘȚȜȞȠȢ'
        'ȤȦȨȪȬȮȰȲȺȻȽȾɁɃɄɅɆɈɊɌɎ'
      else '' end,
        E'ɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵơƣƥʀƨʃƭʈưʊʋƴƶʒƹƽǆǆǉǉǌǌǎǐǒǔǖǘǚǜǟǡǣǥǧǩǫǭǯǳǳǵƕƿǹǻǽǿȁȃȅȇȉȋȍȏȑȓȕȗșțȝȟƞȣ'
        'ȥȧȩȫȭȯȱȳ\u2c65ȼƚ\u2c66ɂƀʉʌɇɉɋɍɏ'),
      -- Greek
      case when p_key collate "C" ~ E'[\u0370-\u03ff]' then
        E'ͰͲͶͿΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫϏϘϚϜϞϠϢϤϦϨϪϬϮϴϷϹϺϽϾϿ'
      else '' end,
        E'ͱͳͷϳάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋϗϙϛϝϟϡϣϥϧϩϫϭϯθϸϲϻͻͼͽ'),
      -- Cyrillic
      case when p_key collate "C" ~ E'[\u0400-\u052f]' then
        E'ЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲ'
        'ҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲӴӶӸӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮ'
      else '' end,
        E'ѐёђѓєѕіїјљњћќѝўџабвгдежзийклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳ'
        'ҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳӵӷӹӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯ'),
      -- Armenian, Georgian, Cherokee
      case when p_key collate "C" ~ E'[\u0531-\u0556\u10a0-\u13f5\u1c89-\u1cbf]' then
        E'ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾႿჀჁჂჃჄჅჇჍᎠᎡᎢᎣᎤᎥᎦᎧ'
        'ᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵᎶᎷᎸᎹᎺᎻᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯᏰᏱᏲᏳᏴᏵᲉᲐᲑᲒᲓᲔᲕᲖ'
        'ᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮᲯᲰᲱᲲᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿ'
      else '' end,
        E'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ\u2d00\u2d01\u2d02\u2d03\u2d04\u2d05\u2d06\u2d07'
        '\u2d08\u2d09\u2d0a\u2d0b\u2d0c\u2d0d\u2d0e\u2d0f\u2d10\u2d11\u2d12\u2d13\u2d14\u2d15'
        '\u2d16\u2d17\u2d18\u2d19\u2d1a\u2d1b\u2d1c\u2d1d\u2d1e\u2d1f\u2d20\u2d21\u2d22\u2d23'
        '\u2d24\u2d25\u2d27\u2d2d\uab70\uab71\uab72\uab73\uab74\uab75\uab76\uab77\uab78\uab79'
        '\uab7a\uab7b\uab7c\uab7d\uab7e\uab7f\uab80\uab81\uab82\uab83\uab84\uab85\uab86\uab87'
        '\uab88\uab89\uab8a\uab8b\uab8c\uab8d\uab8e\uab8f\uab90\uab91\uab92\uab93\uab94\uab95'
        '\uab96\uab97\uab98\uab99\uab9a\uab9b\uab9c\uab9d\uab9e\uab9f\uaba0\uaba1\uaba2\uaba3'
        '\uaba4\uaba5\uaba6\uaba7\uaba8\uaba9\uabaa\uabab\uabac\uabad\uabae\uabaf\uabb0\uabb1'
        '\uabb2\uabb3\uabb4\uabb5\uabb6\uabb7\uabb8\uabb9\uabba\uabbb\uabbc\uabbd\uabbe\uabbfᏸᏹ'
        'ᏺᏻᏼᏽᲊაბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰჱჲჳჴჵჶჷჸჹჺჽჾჿ'),
      -- Latin Extended Additional
      case when p_key collate "C" ~ E'[\u1e00-\u1eff]' then
        E'ḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾṀṂṄṆṈṊṌṎṐṒṔṖṘṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼṾẀẂẄẆẈẊẌẎẐẒẔẞẠẢẤẦẨẪẬẮẰẲ'
        'ẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾ'
      else '' end,
        E'ḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽṿẁẃẅẇẉẋẍẏẑẓẕßạảấầẩẫậắằẳ'
        'ẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹỻỽỿ'),
      -- Greek Extended
      case when p_key collate "C" ~ E'[\u1f00-\u1fff]' then
        E'ἈἉἊἋἌἍἎἏἘἙἚἛἜἝἨἩἪἫἬἭἮἯἸἹἺἻἼἽἾἿὈὉὊὋὌὍὙὛὝὟὨὩὪὫὬὭὮὯᾈᾉᾊᾋᾌᾍᾎᾏᾘᾙᾚᾛᾜᾝᾞᾟᾨᾩᾪᾫᾬᾭᾮᾯᾸᾹᾺ\u1fbbᾼῈ'
        '\u1fc9Ὴ\u1fcbῌῘῙῚ\u1fdbῨῩῪ\u1febῬῸ\u1ff9Ὼ\u1ffbῼ'
      else '' end,
        E'ἀἁἂἃἄἅἆἇἐἑἒἓἔἕἠἡἢἣἤἥἦἧἰἱἲἳἴἵἶἷὀὁὂὃὄὅὑὓὕὗὠὡὢὣὤὥὦὧᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾰᾱὰ\u1f71ᾳὲ'
        '\u1f73ὴ\u1f75ῃῐῑὶ\u1f77ῠῡὺ\u1f7bῥὸ\u1f79ὼ\u1f7dῳ'),
      -- letter-like signs, Roman numerals, letters in circles
      case when p_key collate "C" ~ E'[\u2126-\u2183\u24b6-\u24cf]' then
        E'\u2126\u212a\u212b\u2132\u2160\u2161\u2162\u2163\u2164\u2165\u2166\u2167\u2168\u2169'
        '\u216a\u216b\u216c\u216d\u216e\u216f\u2183\u24b6\u24b7\u24b8\u24b9\u24ba\u24bb\u24bc'
        '\u24bd\u24be\u24bf\u24c0\u24c1\u24c2\u24c3\u24c4\u24c5\u24c6\u24c7\u24c8\u24c9\u24ca'
        '\u24cb\u24cc\u24cd\u24ce\u24cf'
      else '' end,
        E'ωkå\u214e\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u217a\u217b'
        '\u217c\u217d\u217e\u217f\u2184\u24d0\u24d1\u24d2\u24d3\u24d4\u24d5\u24d6\u24d7\u24d8'
        '\u24d9\u24da\u24db\u24dc\u24dd\u24de\u24df\u24e0\u24e1\u24e2\u24e3\u24e4\u24e5\u24e6'
        '\u24e7\u24e8\u24e9'),
      -- Glagolitic, Coptic, later Latin
      case when p_key collate "C" ~ E'[\u2c00-\u2cf2\ua640-\ua7f5]' then
        E'\u2c00\u2c01\u2c02\u2c03\u2c04\u2c05\u2c06\u2c07\u2c08\u2c09\u2c0a\u2c0b\u2c0c\u2c0d'
        '\u2c0e\u2c0f\u2c10\u2c11\u2c12\u2c13\u2c14\u2c15\u2c16\u2c17\u2c18\u2c19\u2c1a\u2c1b'
        '\u2c1c\u2c1d\u2c1e\u2c1f\u2c20\u2c21\u2c22\u2c23\u2c24\u2c25\u2c26\u2c27\u2c28\u2c29'
        '\u2c2a\u2c2b\u2c2c\u2c2d\u2c2e\u2c2f\u2c60\u2c62\u2c63\u2c64\u2c67\u2c69\u2c6b\u2c6d'
        '\u2c6e\u2c6f\u2c70\u2c72\u2c75\u2c7e\u2c7f\u2c80\u2c82\u2c84\u2c86\u2c88\u2c8a\u2c8c'
        '\u2c8e\u2c90\u2c92\u2c94\u2c96\u2c98\u2c9a\u2c9c\u2c9e\u2ca0\u2ca2\u2ca4\u2ca6\u2ca8'
        '\u2caa\u2cac\u2cae\u2cb0\u2cb2\u2cb4\u2cb6\u2cb8\u2cba\u2cbc\u2cbe\u2cc0\u2cc2\u2cc4'
        '\u2cc6\u2cc8\u2cca\u2ccc\u2cce\u2cd0\u2cd2\u2cd4\u2cd6\u2cd8\u2cda\u2cdc\u2cde\u2ce0'
        '\u2ce2\u2ceb\u2ced\u2cf2\ua640\ua642\ua644\ua646\ua648\ua64a\ua64c\ua64e\ua650\ua652'
        '\ua654\ua656\ua658\ua65a\ua65c\ua65e\ua660\ua662\ua664\ua666\ua668\ua66a\ua66c\ua680'
        '\ua682\ua684\ua686\ua688\ua68a\ua68c\ua68e\ua690\ua692\ua694\ua696\ua698\ua69a\ua722'
        '\ua724\ua726\ua728\ua72a\ua72c\ua72e\ua732\ua734\ua736\ua738\ua73a\ua73c\ua73e\ua740'
        '\ua742\ua744\ua746\ua748\ua74a\ua74c\ua74e\ua750\ua752\ua754\ua756\ua758\ua75a\ua75c'
        '\ua75e\ua760\ua762\ua764\ua766\ua768\ua76a\ua76c\ua76e\ua779\ua77b\ua77d\ua77e\ua780'
        '\ua782\ua784\ua786\ua78b\ua78d\ua790\ua792\ua796\ua798\ua79a\ua79c\ua79e\ua7a0\ua7a2'
        '\ua7a4\ua7a6\ua7a8\ua7aa\ua7ab\ua7ac\ua7ad\ua7ae\ua7b0\ua7b1\ua7b2\ua7b3\ua7b4\ua7b6'
        '\ua7b8\ua7ba\ua7bc\ua7be\ua7c0\ua7c2\ua7c4\ua7c5\ua7c6\ua7c7\ua7c9\ua7cb\ua7cc\ua7ce'
        '\ua7d0\ua7d2\ua7d4\ua7d6\ua7d8\ua7da\ua7dc\ua7f5'
      else '' end,
        E'\u2c30\u2c31\u2c32\u2c33\u2c34\u2c35\u2c36\u2c37\u2c38\u2c39\u2c3a\u2c3b\u2c3c\u2c3d'
        '\u2c3e\u2c3f\u2c40\u2c41\u2c42\u2c43\u2c44\u2c45\u2c46\u2c47\u2c48\u2c49\u2c4a\u2c4b'
        '\u2c4c\u2c4d\u2c4e\u2c4f\u2c50\u2c51\u2c52\u2c53\u2c54\u2c55\u2c56\u2c57\u2c58\u2c59'
        '\u2c5a\u2c5b\u2c5c\u2c5d\u2c5e\u2c5f\u2c61ɫᵽɽ\u2c68\u2c6a\u2c6cɑɱɐɒ\u2c73\u2c76ȿɀ'
        '\u2c81\u2c83\u2c85\u2c87\u2c89\u2c8b\u2c8d\u2c8f\u2c91\u2c93\u2c95\u2c97\u2c99\u2c9b'
        '\u2c9d\u2c9f\u2ca1\u2ca3\u2ca5\u2ca7\u2ca9\u2cab\u2cad\u2caf\u2cb1\u2cb3\u2cb5\u2cb7'
        '\u2cb9\u2cbb\u2cbd\u2cbf\u2cc1\u2cc3\u2cc5\u2cc7\u2cc9\u2ccb\u2ccd\u2ccf\u2cd1\u2cd3'
        '\u2cd5\u2cd7\u2cd9\u2cdb\u2cdd\u2cdf\u2ce1\u2ce3\u2cec\u2cee\u2cf3\ua641\ua643\ua645'
        '\ua647\ua649\ua64b\ua64d\ua64f\ua651\ua653\ua655\ua657\ua659\ua65b\ua65d\ua65f\ua661'
        '\ua663\ua665\ua667\ua669\ua66b\ua66d\ua681\ua683\ua685\ua687\ua689\ua68b\ua68d\ua68f'
        '\ua691\ua693\ua695\ua697\ua699\ua69b\ua723\ua725\ua727\ua729\ua72b\ua72d\ua72f\ua733'
        '\ua735\ua737\ua739\ua73b\ua73d\ua73f\ua741\ua743\ua745\ua747\ua749\ua74b\ua74d\ua74f'
        '\ua751\ua753\ua755\ua757\ua759\ua75b\ua75d\ua75f\ua761\ua763\ua765\ua767\ua769\ua76b'
        '\ua76d\ua76f\ua77a\ua77cᵹ\ua77f\ua781\ua783\ua785\ua787\ua78cɥ\ua791\ua793\ua797\ua799'
        '\ua79b\ua79d\ua79f\ua7a1\ua7a3\ua7a5\ua7a7\ua7a9ɦɜɡɬɪʞʇʝ\uab53\ua7b5\ua7b7\ua7b9\ua7bb'
        '\ua7bd\ua7bf\ua7c1\ua7c3\ua794ʂᶎ\ua7c8\ua7caɤ\ua7cd\ua7cf\ua7d1\ua7d3\ua7d5\ua7d7'
        '\ua7d9\ua7dbƛ\ua7f6'),
      -- full width
      case when p_key collate "C" ~ E'[\uff21-\uff3a]' then
        E'\uff21\uff22\uff23\uff24\uff25\uff26\uff27\uff28\uff29\uff2a\uff2b\uff2c\uff2d\uff2e'
        '\uff2f\uff30\uff31\uff32\uff33\uff34\uff35\uff36\uff37\uff38\uff39\uff3a'
      else '' end,
        E'\uff41\uff42\uff43\uff44\uff45\uff46\uff47\uff48\uff49\uff4a\uff4b\uff4c\uff4d\uff4e'
        '\uff4f\uff50\uff51\uff52\uff53\uff54\uff55\uff56\uff57\uff58\uff59\uff5a'),
      -- beyond the basic plane
      case when p_key collate "C" ~ E'[\U00010400-\U0001e921]' then
        E'\U00010400\U00010401\U00010402\U00010403\U00010404\U00010405\U00010406\U00010407'
        '\U00010408\U00010409\U0001040a\U0001040b\U0001040c\U0001040d\U0001040e\U0001040f'
        '\U00010410\U00010411\U00010412\U00010413\U00010414\U00010415\U00010416\U00010417'
        '\U00010418\U00010419\U0001041a\U0001041b\U0001041c\U0001041d\U0001041e\U0001041f'
        '\U00010420\U00010421\U00010422\U00010423\U00010424\U00010425\U00010426\U00010427'
        '\U000104b0\U000104b1\U000104b2\U000104b3\U000104b4\U000104b5\U000104b6\U000104b7'
        '\U000104b8\U000104b9\U000104ba\U000104bb\U000104bc\U000104bd\U000104be\U000104bf'
        '\U000104c0\U000104c1\U000104c2\U000104c3\U000104c4\U000104c5\U000104c6\U000104c7'
        '\U000104c8\U000104c9\U000104ca\U000104cb\U000104cc\U000104cd\U000104ce\U000104cf'
        '\U000104d0\U000104d1\U000104d2\U000104d3\U00010570\U00010571\U00010572\U00010573'
        '\U00010574\U00010575\U00010576\U00010577\U00010578\U00010579\U0001057a\U0001057c'
        '\U0001057d\U0001057e\U0001057f\U00010580\U00010581\U00010582\U00010583\U00010584'
        '\U00010585\U00010586\U00010587\U00010588\U00010589\U0001058a\U0001058c\U0001058d'
        '\U0001058e\U0001058f\U00010590\U00010591\U00010592\U00010594\U00010595\U00010c80'
        '\U00010c81\U00010c82\U00010c83\U00010c84\U00010c85\U00010c86\U00010c87\U00010c88'
        '\U00010c89\U00010c8a\U00010c8b\U00010c8c\U00010c8d\U00010c8e\U00010c8f\U00010c90'
        '\U00010c91\U00010c92\U00010c93\U00010c94\U00010c95\U00010c96\U00010c97\U00010c98'
        '\U00010c99\U00010c9a\U00010c9b\U00010c9c\U00010c9d\U00010c9e\U00010c9f\U00010ca0'
        '\U00010ca1\U00010ca2\U00010ca3\U00010ca4\U00010ca5\U00010ca6\U00010ca7\U00010ca8'
        '\U00010ca9\U00010caa\U00010cab\U00010cac\U00010cad\U00010cae\U00010caf\U00010cb0'
        '\U00010cb1\U00010cb2\U00010d50\U00010d51\U00010d52\U00010d53\U00010d54\U00010d55'
        '\U00010d56\U00010d57\U00010d58\U00010d59\U00010d5a\U00010d5b\U00010d5c\U00010d5d'
        '\U00010d5e\U00010d5f\U00010d60\U00010d61\U00010d62\U00010d63\U00010d64\U00010d65'
        '\U000118a0\U000118a1\U000118a2\U000118a3\U000118a4\U000118a5\U000118a6\U000118a7'
        '\U000118a8\U000118a9\U000118aa\U000118ab\U000118ac\U000118ad\U000118ae\U000118af'
        '\U000118b0\U000118b1\U000118b2\U000118b3\U000118b4\U000118b5\U000118b6\U000118b7'
        '\U000118b8\U000118b9\U000118ba\U000118bb\U000118bc\U000118bd\U000118be\U000118bf'
        '\U00016e40\U00016e41\U00016e42\U00016e43\U00016e44\U00016e45\U00016e46\U00016e47'
        '\U00016e48\U00016e49\U00016e4a\U00016e4b\U00016e4c\U00016e4d\U00016e4e\U00016e4f'
        '\U00016e50\U00016e51\U00016e52\U00016e53\U00016e54\U00016e55\U00016e56\U00016e57'
        '\U00016e58\U00016e59\U00016e5a\U00016e5b\U00016e5c\U00016e5d\U00016e5e\U00016e5f'
        '\U00016ea0\U00016ea1\U00016ea2\U00016ea3\U00016ea4\U00016ea5\U00016ea6\U00016ea7'
        '\U00016ea8\U00016ea9\U00016eaa\U00016eab\U00016eac\U00016ead\U00016eae\U00016eaf'
        '\U00016eb0\U00016eb1\U00016eb2\U00016eb3\U00016eb4\U00016eb5\U00016eb6\U00016eb7'
        '\U00016eb8\U0001e900\U0001e901\U0001e902\U0001e903\U0001e904\U0001e905\U0001e906'
        '\U0001e907\U0001e908\U0001e909\U0001e90a\U0001e90b\U0001e90c\U0001e90d\U0001e90e'
        '\U0001e90f\U0001e910\U0001e911\U0001e912\U0001e913\U0001e914\U0001e915\U0001e916'
        '\U0001e917\U0001e918\U0001e919\U0001e91a\U0001e91b\U0001e91c\U0001e91d\U0001e91e'
        '\U0001e91f\U0001e920\U0001e921'
      else '' end,
        E'\U00010428\U00010429\U0001042a\U0001042b\U0001042c\U0001042d\U0001042e\U0001042f'
        '\U00010430\U00010431\U00010432\U00010433\U00010434\U00010435\U00010436\U00010437'
        '\U00010438\U00010439\U0001043a\U0001043b\U0001043c\U0001043d\U0001043e\U0001043f'
        '\U00010440\U00010441\U00010442\U00010443\U00010444\U00010445\U00010446\U00010447'
        '\U00010448\U00010449\U0001044a\U0001044b\U0001044c\U0001044d\U0001044e\U0001044f'
        '\U000104d8\U000104d9\U000104da\U000104db\U000104dc\U000104dd\U000104de\U000104df'
        '\U000104e0\U000104e1\U000104e2\U000104e3\U000104e4\U000104e5\U000104e6\U000104e7'
        '\U000104e8\U000104e9\U000104ea\U000104eb\U000104ec\U000104ed\U000104ee\U000104ef'
        '\U000104f0\U000104f1\U000104f2\U000104f3\U000104f4\U000104f5\U000104f6\U000104f7'
        '\U000104f8\U000104f9\U000104fa\U000104fb\U00010597\U00010598\U00010599\U0001059a'
        '\U0001059b\U0001059c\U0001059d\U0001059e\U0001059f\U000105a0\U000105a1\U000105a3'
        '\U000105a4\U000105a5\U000105a6\U000105a7\U000105a8\U000105a9\U000105aa\U000105ab'
        '\U000105ac\U000105ad\U000105ae\U000105af\U000105b0\U000105b1\U000105b3\U000105b4'
        '\U000105b5\U000105b6\U000105b7\U000105b8\U000105b9\U000105bb\U000105bc\U00010cc0'
        '\U00010cc1\U00010cc2\U00010cc3\U00010cc4\U00010cc5\U00010cc6\U00010cc7\U00010cc8'
        '\U00010cc9\U00010cca\U00010ccb\U00010ccc\U00010ccd\U00010cce\U00010ccf\U00010cd0'
        '\U00010cd1\U00010cd2\U00010cd3\U00010cd4\U00010cd5\U00010cd6\U00010cd7\U00010cd8'
        '\U00010cd9\U00010cda\U00010cdb\U00010cdc\U00010cdd\U00010cde\U00010cdf\U00010ce0'
        '\U00010ce1\U00010ce2\U00010ce3\U00010ce4\U00010ce5\U00010ce6\U00010ce7\U00010ce8'
        '\U00010ce9\U00010cea\U00010ceb\U00010cec\U00010ced\U00010cee\U00010cef\U00010cf0'
        '\U00010cf1\U00010cf2\U00010d70\U00010d71\U00010d72\U00010d73\U00010d74\U00010d75'
        '\U00010d76\U00010d77\U00010d78\U00010d79\U00010d7a\U00010d7b\U00010d7c\U00010d7d'
        '\U00010d7e\U00010d7f\U00010d80\U00010d81\U00010d82\U00010d83\U00010d84\U00010d85'
        '\U000118c0\U000118c1\U000118c2\U000118c3\U000118c4\U000118c5\U000118c6\U000118c7'
        '\U000118c8\U000118c9\U000118ca\U000118cb\U000118cc\U000118cd\U000118ce\U000118cf'
        '\U000118d0\U000118d1\U000118d2\U000118d3\U000118d4\U000118d5\U000118d6\U000118d7'
        '\U000118d8\U000118d9\U000118da\U000118db\U000118dc\U000118dd\U000118de\U000118df'
        '\U00016e60\U00016e61\U00016e62\U00016e63\U00016e64\U00016e65\U00016e66\U00016e67'
        '\U00016e68\U00016e69\U00016e6a\U00016e6b\U00016e6c\U00016e6d\U00016e6e\U00016e6f'
        '\U00016e70\U00016e71\U00016e72\U00016e73\U00016e74\U00016e75\U00016e76\U00016e77'
        '\U00016e78\U00016e79\U00016e7a\U00016e7b\U00016e7c\U00016e7d\U00016e7e\U00016e7f'
        '\U00016ebb\U00016ebc\U00016ebd\U00016ebe\U00016ebf\U00016ec0\U00016ec1\U00016ec2'
        '\U00016ec3\U00016ec4\U00016ec5\U00016ec6\U00016ec7\U00016ec8\U00016ec9\U00016eca'
        '\U00016ecb\U00016ecc\U00016ecd\U00016ece\U00016ecf\U00016ed0\U00016ed1\U00016ed2'
        '\U00016ed3\U0001e922\U0001e923\U0001e924\U0001e925\U0001e926\U0001e927\U0001e928'
        '\U0001e929\U0001e92a\U0001e92b\U0001e92c\U0001e92d\U0001e92e\U0001e92f\U0001e930'
        '\U0001e931\U0001e932\U0001e933\U0001e934\U0001e935\U0001e936\U0001e937\U0001e938'
        '\U0001e939\U0001e93a\U0001e93b\U0001e93c\U0001e93d\U0001e93e\U0001e93f\U0001e940'
        '\U0001e941\U0001e942\U0001e943')
    end collate "C",
    E'[\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028-\u2029\u202f\u205f\u3000]+', ' ', 'g'), ' ')
$fold$;

comment on function aiq.fold_key(text) is
  'The key as it is stored and compared: each character in simple lower case by a fixed table, '
  'white space trimmed and collapsed. Does not depend on the locale of the database. '
  'Folding a folded key changes nothing.';
alter function aiq.fold_key(text) owner to aiq_owner;
revoke all on function aiq.fold_key(text) from public;
grant execute on function aiq.fold_key(text) to authenticated, aiq_worker, aiq_engine;
